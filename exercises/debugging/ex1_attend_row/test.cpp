#include <doctest/doctest.h>
#include <attend_row.hpp>

#include <cstdio>

#include "exercises/support/verdict.hpp"

using debugging::Step;

enum class Way {
  kRight,
  kSumNotMoved,
  kOutputNotMoved,
  kMaximumMayFall,
  kOnlyMaximumFalls,
  kFactorOfTheTile,
  kFactorUpsideDown,
  kUpsideDownGuarded,
  kMovedAfterAdding,
  kMaximumNotStored,
  kNewTermsMoved,
  kFromTileMaximum,
  kTermsByOldMaximum,
  kFactorFromTileBefore,
  kFactorFromTwoTiles,
  kMaximumOfTwoTiles,
};

// The trace in fp32, as the exercise computes it, right or with a mistake.
static std::vector<Step> steps(const std::vector<float>& s, const std::vector<float>& v,
                               size_t block, Way way) {
  std::vector<Step> trace;
  float m = -INFINITY, l = 0, o = 0, before = -INFINITY;  // the previous tile alone
  for (size_t first = 0; first < s.size(); first += block) {
    const size_t last = std::min(first + block, s.size());
    const float tile_max = *std::max_element(s.begin() + first, s.begin() + last);
    const float larger = std::max(m, tile_max);
    const bool falls = way == Way::kMaximumMayFall || way == Way::kOnlyMaximumFalls;
    const float m_new = falls                            ? tile_max
                        : way == Way::kMaximumOfTwoTiles ? std::max(before, tile_max)
                                                         : larger;
    const bool of_tile = way == Way::kMaximumMayFall || way == Way::kFactorOfTheTile;
    const float factor =
        way == Way::kFactorUpsideDown       ? std::exp(larger - m)
        : way == Way::kUpsideDownGuarded    ? (first == 0 ? 0 : std::exp(larger - m))
        : way == Way::kFactorFromTileBefore ? std::exp(before - larger)
        : way == Way::kFactorFromTwoTiles   ? std::exp(before - std::max(before, tile_max))
        : way == Way::kMaximumOfTwoTiles    ? std::exp(m - m_new)
        : way == Way::kFromTileMaximum      ? std::exp(tile_max - larger)
                                            : std::exp(m - (of_tile ? tile_max : larger));
    const auto move = [&] {
      if (way != Way::kSumNotMoved) l *= factor;
      if (way != Way::kOutputNotMoved) o *= factor;
    };
    if (way != Way::kMovedAfterAdding && way != Way::kNewTermsMoved) move();
    const float on_new = way == Way::kNewTermsMoved ? factor : 1;
    for (size_t j = first; j < last; ++j) {
      const float p = std::exp(s[j] - (way == Way::kTermsByOldMaximum ? m : m_new));
      l += on_new * p;
      o += on_new * p * v[j];
    }
    if (way == Way::kMovedAfterAdding) move();
    if (way != Way::kMaximumNotStored) m = m_new;
    before = tile_max;
    trace.push_back({m, l, o});
  }
  return trace;
}

// All that a mistake must explain. Many results are a NaN; the trace says which mistake made it.
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
  const std::vector<Step> right = steps(s, v, block, Way::kRight);
  INFO(table(trace, right));
  const auto result = [](const std::vector<Step>& steps) {
    return steps.back().o / steps.back().l;
  };
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, Way way, const char* explanation) {
    const std::vector<Step> wrong = steps(s, v, block, way);
    looks.push_back({name, shown(wrong, result(wrong)), explanation});
  };
  mistake("sum-not-moved", Way::kSumNotMoved,
          "o moved to the new maximum and l did not: they are divided at the end, so both must");
  mistake("output-not-moved", Way::kOutputNotMoved,
          "l moved to the new maximum and o did not: they are divided at the end, so both must");
  mistake("maximum-may-fall", Way::kMaximumMayFall,
          "m fell to the maximum of a lower tile, and e^(m - m') of the step down overflows");
  mistake("maximum-may-fall", Way::kOnlyMaximumFalls,
          "m fell to the maximum of a lower tile; it is the largest of all tiles so far");
  mistake("factor-of-the-tile", Way::kFactorOfTheTile,
          "the factor is e^(m - maximum of the tile); where the old maximum stays it must be 1");
  mistake("factor-of-the-tile", Way::kFromTileMaximum,
          "the factor is e^(maximum of the tile - m'); the old sums are relative to the old "
          "maximum, so that it is e^(m - m')");
  mistake("maximum-may-fall", Way::kMaximumOfTwoTiles,
          "m is the larger of this tile's maximum and that of the tile before, so it can fall; it "
          "is the largest of all tiles so far");
  mistake("maximum-of-the-tile-before", Way::kFactorFromTileBefore,
          "the factor is e^(maximum of the previous tile - m'); the old sums are relative to the "
          "largest of all earlier tiles, which may be another one");
  mistake("maximum-of-the-tile-before", Way::kFactorFromTwoTiles,
          "the factor is made of this tile's maximum and that of the previous tile; the old sums "
          "are relative to the largest of all earlier tiles, which may be another one");
  mistake("factor-upside-down", Way::kFactorUpsideDown,
          "the factor is e^(m' - m); the old sums must shrink when the maximum grows");
  mistake("factor-upside-down", Way::kUpsideDownGuarded,
          "the factor is e^(m' - m); the old sums must shrink when the maximum grows");
  mistake("moved-after-adding", Way::kMovedAfterAdding,
          "l and o are moved after the new terms were added; those are relative to m' already");
  mistake("new-terms-moved", Way::kNewTermsMoved,
          "the factor is on the new terms; those are relative to m' already, the old sums are not");
  mistake("maximum-not-stored", Way::kMaximumNotStored,
          "m is never stored, so that each tile takes the earlier tiles for nothing");
  mistake("terms-by-old-maximum", Way::kTermsByOldMaximum,
          "the factor is right, but m grows only after the loop over the keys, so that the new "
          "terms are e^(s - old m), and e^(s + Inf) in the first tile");
  const std::string difference = exercise::difference({"o"}, {o}, {result(right)});
  exercise::check_shown(difference.empty(), difference, shown(trace, o), looks);
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
