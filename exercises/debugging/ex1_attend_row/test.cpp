#include <doctest/doctest.h>
#include <attend_row.hpp>

#include <cstdio>

#include "exercises/support/verdict.hpp"

using debugging::Step;

enum class Way { kRight, kSumNotMoved, kMaximumMayFall };

// The trace in fp32, as the exercise computes it, right or with a mistake.
static std::vector<Step> steps(const std::vector<float>& s, const std::vector<float>& v,
                               size_t block, Way way) {
  std::vector<Step> trace;
  float m = -INFINITY, l = 0, o = 0;
  for (size_t first = 0; first < s.size(); first += block) {
    const size_t last = std::min(first + block, s.size());
    const float tile_max = *std::max_element(s.begin() + first, s.begin() + last);
    const float m_new = way == Way::kMaximumMayFall ? tile_max : std::max(m, tile_max);
    const float rescale = std::exp(m - m_new);
    if (way != Way::kSumNotMoved) l *= rescale;
    o *= rescale;
    m = m_new;
    for (size_t j = first; j < last; ++j) {
      l += std::exp(s[j] - m);
      o += std::exp(s[j] - m) * v[j];
    }
    trace.push_back({m, l, o});
  }
  return trace;
}

static exercise::Numbers result(const std::vector<float>& s, const std::vector<float>& v,
                                size_t block, Way way) {
  const Step last = steps(s, v, block, way).back();
  return {static_cast<double>(last.o / last.l)};
}

static std::string table(const std::vector<Step>& got, const std::vector<Step>& right) {
  std::string text =
      "TODO(D.1): this program is wrong; find the line and mend it\n  tile       m       l       "
      "o   |   right m       l       o\n";
  for (size_t t = 0; t < got.size() && t < right.size(); ++t) {
    char line[120];
    std::snprintf(line, sizeof line, "  %4zu %7.4g %7.4g %7.4g   |   %7.4g %7.4g %7.4g\n", t,
                  got[t].m, got[t].l, got[t].o, right[t].m, right[t].l, right[t].o);
    text += line;
  }
  return text;
}

static void check_row(const std::vector<float>& s, const std::vector<float>& v, size_t block) {
  std::vector<Step> trace;
  const float o = debugging::attend_row(s, v, block, trace);
  INFO(table(trace, steps(s, v, block, Way::kRight)));
  exercise::check_output(
      {"o"}, {o}, result(s, v, block, Way::kRight),
      {{"sum-not-moved", result(s, v, block, Way::kSumNotMoved),
        "o moved to the new maximum and l did not: they are divided at the end, so both must"},
       {"maximum-may-fall", result(s, v, block, Way::kMaximumMayFall),
        "m fell to the maximum of a lower tile, and e^(m - m') of the step down overflows"}});
}

TEST_CASE("one tile") { check_row({1, 3, 2}, {1, 2, 3}, 4); }
TEST_CASE("the first tile has the maximum") { check_row({5, 3, 2, 1}, {1, 2, 3, 4}, 2); }
TEST_CASE("the maximum grows") { check_row({1, 2, 5, 3, 4, 7}, {1, 2, 3, 4, 5, 6}, 2); }
TEST_CASE("a tile far below") { check_row({100, 99, -100, -101}, {1, 2, 3, 4}, 2); }
TEST_CASE("a long row") {
  check_row(exercise::random_numbers(1000, 1, 3), exercise::random_numbers(1000, 2), 64);
}
