#include <doctest/doctest.h>
#include <attend_row.hpp>

#include <cstdio>

#include "exercises/support/verdict.hpp"

using debugging::Step;

// The trace in fp32, as the exercise computes it, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  std::vector<Step> steps(const std::vector<float>& s, const std::vector<float>& v,
                          size_t block) const {
    std::vector<Step> trace;
    float m = -INFINITY, l = 0, o = 0, before = -INFINITY;  // the previous tile alone
    for (size_t first = 0; first < s.size(); first += block) {
      const size_t last = std::min(first + block, s.size());
      const float tile_max = *std::max_element(s.begin() + first, s.begin() + last);
      const float larger = std::max(m, tile_max);
      const float m_new = is("falls")                  ? tile_max
                          : is("maximum-of-two-tiles") ? std::max(before, tile_max)
                                                       : larger;
      const float from = is("from-tile-before") ? before : is("from-tile") ? tile_max : m;
      const float to = is("to-tile")        ? tile_max
                       : is("to-two-tiles") ? std::max(before, tile_max)
                                            : larger;
      const float factor = is("guarded") && first == 0 ? 0
                           : is("factor-upside-down")  ? std::exp(to - from)
                                                       : std::exp(from - to);
      const auto move = [&] {
        if (!is("sum-not-moved")) l *= factor;
        if (!is("output-not-moved")) o *= factor;
      };
      if (!is.any("moved-after-adding", "new-terms-moved")) move();
      for (size_t j = first; j < last; ++j) {
        const float p = std::exp(s[j] - (is("terms-by-old-maximum") ? m : m_new)) *
                        (is("new-terms-moved") ? factor : 1);
        l += p;
        o += p * v[j];
      }
      if (is("moved-after-adding")) move();
      if (!is("maximum-not-stored")) m = m_new;
      before = tile_max;
      trace.push_back({m, l, o});
    }
    return trace;
  }
};

static const exercise::Table MISTAKES(R"(
sum-not-moved
  o moved to the new maximum and l did not: they are divided at the end, so both must
output-not-moved
  l moved to the new maximum and o did not: they are divided at the end, so both must
maximum-may-fall: falls to-tile
  m fell to the maximum of a lower tile, and e^(m - m') of the step down overflows
maximum-may-fall: falls
  m fell to the maximum of a lower tile. It should be the largest of all tiles so far
factor-of-the-tile: to-tile
  the factor is e^(m - maximum of the tile). Where the old maximum stays it must be 1
factor-of-the-tile: from-tile
  the factor is e^(maximum of the tile - m'). The old sums are relative to the old maximum, so that
  it is e^(m - m')
maximum-may-fall: maximum-of-two-tiles to-two-tiles
  m is the larger of this tile's maximum and that of the tile before, so it can fall. It should be
  the largest of all tiles so far
maximum-of-the-tile-before: from-tile-before
  the factor is e^(maximum of the previous tile - m'). The old sums are relative to the largest of
  all earlier tiles, which may be another one
maximum-of-the-tile-before: from-tile-before to-two-tiles
  the factor is made of this tile's maximum and that of the previous tile. The old sums are relative
  to the largest of all earlier tiles, which may be another one
factor-upside-down: factor-upside-down; factor-upside-down guarded
  the factor is e^(m' - m). The old sums must shrink when the maximum grows
moved-after-adding
  l and o are moved after the new terms were added. Those are relative to m' already
new-terms-moved
  the factor is on the new terms. Those are relative to m' already, the old sums are not
maximum-not-stored
  m is never stored, so that each tile takes the earlier tiles for nothing
terms-by-old-maximum
  the factor is right, but m grows only after the loop over the keys, so that the new terms are e^(s
  - old m), and e^(s + Inf) in the first tile
)");

// All that a mistake must explain. Many results are a NaN, and the trace says which mistake made
// it.
static std::string shown(const std::vector<Step>& trace, float result) {
  std::string all;
  const auto add = [&](float value) {
    char number[32];
    std::snprintf(number, sizeof number, "%.3g ", value);
    all += std::isnan(value) ? "NaN " : number;
  };
  for (const Step& step : trace) add(step.m), add(step.l), add(step.o);
  add(result);
  return all;
}

static std::string table(const std::vector<Step>& got, const std::vector<Step>& right) {
  std::string text = "  tile       m       l       o   |   right m       l       o\n";
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
  const std::vector<Step> right = Way{}.steps(s, v, block);
  INFO(table(trace, right));
  const auto result = [](const std::vector<Step>& steps) {
    return steps.back().o / steps.back().l;
  };
  const std::string difference = exercise::difference({"o"}, {o}, {result(right)});
  exercise::check_shown(difference.empty(), difference, shown(trace, o),
                        exercise::looks<Way>(MISTAKES, [&](const Way& way) {
                          const std::vector<Step> wrong = way.steps(s, v, block);
                          return shown(wrong, result(wrong));
                        }));
}

TEST_CASE("one tile") { check_row({1, 3, 2}, {1, 2, 3}, 4); }
TEST_CASE("the first tile has the maximum") { check_row({5, 3, 2, 1}, {1, 2, 3, 4}, 2); }
TEST_CASE("the maximum grows") { check_row({1, 2, 5, 3, 4, 7}, {1, 2, 3, 4, 5, 6}, 2); }
TEST_CASE("the first of three tiles has the maximum") {
  check_row({5, 1, 3, 2, 4, 0}, {1, 2, 3, 4, 5, 6}, 2);
}
TEST_CASE("a tile far below") { check_row({100, 99, -100, -101}, {1, 2, 3, 4}, 2); }
TEST_CASE("each of three tiles far below the previous one") {
  check_row({100, 99, -100, -101, -200, -201}, {1, 2, 3, 4, 5, 6}, 2);
}
TEST_CASE("a long row") {
  check_row(exercise::random_numbers(1000, 1, 3), exercise::random_numbers(1000, 2), 64);
}
