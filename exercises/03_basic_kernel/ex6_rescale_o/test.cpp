#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <rescale_o.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr int MMAS_D = 3;  // not as many as a lane has rows

struct State {
  float m[2], l[2], O[MMAS_D][4];
};

// m (2 numbers), l (2) and O (12).
static Numbers numbers_of(const State& state) {
  Numbers all = {state.m[0], state.m[1], state.l[0], state.l[1]};
  for (const auto& tile : state.O) all.insert(all.end(), tile, tile + 4);
  return all;
}

// O with element i of tile t multiplied by factor(t, i).
template <class Factor>
static void scale_O(State& state, Factor factor) {
  for (int t = 0; t < MMAS_D; ++t)
    for (int i = 0; i < 4; ++i) state.O[t][i] *= factor(t, i);
}

static void check_update(float m0, float m1, float max0, float max1) {
  State before = {{m0, m1}, {3, 5}, {{1, 2, 3, 4}, {-5, 6, -7, 8}, {9, -1, 5, 7}}};
  for (int half = 0; half < 2; ++half) {
    if (!std::isinf(before.m[half])) continue;  // nothing was summed yet
    before.l[half] = 0;
    scale_O(before, [&](int, int i) { return i / 2 == half ? 0.0f : 1.0f; });
  }
  const float row_max[2] = {max0, max1};
  const auto new_max = [&](int half) { return std::max(before.m[half], row_max[half]); };
  const auto factor = [&](int half) {
    return std::isinf(new_max(half)) ? 0 : std::exp(before.m[half] - new_max(half));
  };
  // m as m(half) says; l and O multiplied by l_factor(half) and O_factor(tile, element).
  const auto with_elements = [&](auto m, auto l_factor, auto O_factor) {
    State state = before;
    for (int half = 0; half < 2; ++half) {
      state.m[half] = m(half);
      state.l[half] *= l_factor(half);
    }
    scale_O(state, O_factor);
    return numbers_of(state);
  };
  const auto with = [&](auto m, auto l_factor, auto O_factor) {
    return with_elements(m, l_factor, [&](int, int i) { return O_factor(i / 2); });
  };
  const auto one = [](int) { return 1.0f; };
  const auto upside_down = [&](int half) { return 1 / factor(half); };
  const auto naive = [&](int half) { return std::exp(before.m[half] - new_max(half)); };
  const auto old_max = [&](int half) { return before.m[half]; };
  const auto tile_max = [&](int half) { return row_max[half]; };
  const auto from_tile_max = [&](int half) { return std::exp(before.m[half] - row_max[half]); };
  const auto guarded = [&](int half) {
    return std::isinf(new_max(half)) ? 0 : from_tile_max(half);
  };
  const auto zero_for_hidden = [&](int half) {
    return std::exp(before.m[half] - (std::isinf(row_max[half]) ? 0 : row_max[half]));
  };
  const auto zero_if_hidden = [&](int half) {
    return std::isinf(row_max[half]) ? 0 : factor(half);
  };
  const float both = std::max({before.m[0], before.m[1], row_max[0], row_max[1]});
  const auto common = [&](int) { return both; };
  const auto from_common = [&](int half) { return std::exp(before.m[half] - both); };

  const auto power = [&](int count) {
    return [&factor, count](int half) { return std::pow(factor(half), static_cast<float>(count)); };
  };
  // Row lane/4 as `usual` says, the other one too if the condition holds.
  const auto second_if = [](bool holds, const auto& usual, const auto& otherwise) {
    return [&, holds](int half) { return half == 0 || holds ? usual(half) : otherwise(half); };
  };
  const char* const again =
      "l was multiplied inside the loop over O, once for each tile or element; there is one l per "
      "row, and it is multiplied once";
  const char* const other_row =
      "one of the two rows sees no key, and the other one was not updated either: return or break "
      "in the loop over the rows, where continue would do";

  const char* const stays =
      "the maximum of one row stays, and the other row was not updated either: return or break in "
      "the loop over the rows, where continue would do";

  State state = before;
  emulator::ex03::update_max(state.m, state.l, state.O, row_max);
  const Numbers got = numbers_of(state);
  Numbers flipped = with(new_max, upside_down, upside_down);
  for (double& value : flipped)
    if (std::isnan(value))
      value = 0;  // 0 / 0: an answer that inverts the factor and keeps the empty row
  const char* const nan =
      "a row that has seen no key has m = -Inf before and after, and -Inf - (-Inf) is NaN";
  const std::vector<exercise::Mistake> mistakes = {
      {"m-updated-first", with(new_max, one, one),
       "nothing was rescaled: m already held the new maximum when the factor was taken, and e^(m' "
       "- m') is 1; or there is no factor"},
      {"factor-upside-down", flipped,
       "the factor was e^(m' - m), above 1; the old sums are too large by that, so multiply by "
       "e^(m - m')"},
      {"factor-upside-down", with(new_max, upside_down, upside_down),
       "the factor was e^(m' - m), above 1; the old sums are too large by that, so multiply by "
       "e^(m - m')"},
      {"one-factor-for-both-rows", with(new_max, factor, [&](int) { return factor(0); }),
       "all four elements of a tile of O got the factor of row lane/4; elements 2 and 3 are in row "
       "lane/4 + 8"},
      {"one-factor-for-both-rows", with(new_max, factor, [&](int) { return factor(1); }),
       "all four elements of a tile of O got the factor of row lane/4 + 8; elements 0 and 1 are in "
       "row lane/4"},
      {"one-factor-for-both-rows",
       with(new_max, factor, [&](int) { return factor(0) * factor(1); }),
       "all four elements of a tile of O got both factors; elements 0 and 1 are in row lane/4, 2 "
       "and 3 in row lane/4 + 8"},
      {"columns-for-rows",
       with_elements(new_max, factor, [&](int, int i) { return factor(i % 2); }),
       "element i of a tile of O got the factor of row i % 2; its row is i / 2, and i % 2 the "
       "column"},
      {"one-column-of-two",
       with_elements(new_max, factor, [&](int, int i) { return i % 2 ? 1 : factor(i / 2); }),
       "of the two neighbours that a lane has in a row only the left one was rescaled: elements 0 "
       "and 1, 2 and 3"},
      {"tiles-for-rows",
       with_elements(new_max, factor, [&](int tile, int) { return factor(tile % 2); }),
       "even and odd tiles of O got the two factors; each tile holds both rows, elements 0 and 1 "
       "the first, 2 and 3 the second"},
      {"first-tile-only",
       with_elements(new_max, factor, [&](int t, int i) { return t ? 1 : factor(i / 2); }),
       "only the first tile of O was rescaled; O_rmem has MMAS_D of them"},
      {"two-tiles-only",
       with_elements(new_max, factor, [&](int t, int i) { return t < 2 ? factor(i / 2) : 1; }),
       "only the first two tiles of O were rescaled; O_rmem has MMAS_D of them"},
      {"l-rescaled-again", with(new_max, power(MMAS_D), factor), again},
      {"l-rescaled-again", with(new_max, power(2 * MMAS_D), factor), again},
      {"l-rescaled-again", with(new_max, power(4 * MMAS_D), factor), again},
      {"l-rescaled-again", with(new_max, power(2), factor),
       "l was multiplied by the factor twice; once moves it to the new maximum"},
      {"return-for-continue",
       with(second_if(!std::isinf(row_max[0]), new_max, old_max),
            second_if(!std::isinf(row_max[0]), factor, one),
            second_if(!std::isinf(row_max[0]), factor, one)),
       other_row},
      {"return-for-continue",
       with(second_if(!std::isinf(new_max(0)), new_max, old_max),
            second_if(!std::isinf(new_max(0)), factor, one),
            second_if(!std::isinf(new_max(0)), factor, one)),
       other_row},
      {"return-for-continue",
       std::isinf(row_max[0]) || std::isinf(row_max[1]) ? numbers_of(before)
                                                        : with(new_max, factor, factor),
       other_row},
      {"return-for-continue",
       std::isinf(new_max(0)) || std::isinf(new_max(1)) ? numbers_of(before)
                                                        : with(new_max, factor, factor),
       other_row},
      {"return-for-continue",
       with(second_if(new_max(0) != before.m[0], new_max, old_max),
            second_if(new_max(0) != before.m[0], factor, one),
            second_if(new_max(0) != before.m[0], factor, one)),
       stays},
      {"return-for-continue",
       new_max(0) == before.m[0] || new_max(1) == before.m[1] ? numbers_of(before)
                                                              : with(new_max, factor, factor),
       stays},
      {"second-row-forgotten",
       with([&](int half) { return half ? before.m[1] : new_max(0); },
            [&](int half) { return half ? 1 : factor(0); },
            [&](int half) { return half ? 1 : factor(0); }),
       "only row lane/4 was updated; index 1 of m and l, elements 2 and 3 of O are row lane/4 + 8"},
      {"one-maximum-for-both-rows", with(common, from_common, from_common),
       "both rows got the larger of their two maxima; each row has its own"},
      {"infinity-minus-infinity", with(new_max, naive, naive), nan},
      {"hidden-tile-wipes", with(new_max, zero_if_hidden, zero_if_hidden),
       "a tile in which the row sees no key made the factor 0 and wiped what earlier tiles had "
       "summed; the maximum stays there, and the factor is 1"},
      {"subtrahend-stored",
       with([&](int half) { return std::isinf(new_max(half)) ? 0 : new_max(half); }, factor,
            factor),
       "where no key was visible, 0 was stored as the maximum: 0 only replaces -Inf in the "
       "subtraction; m stays -Inf"},
      {"m-not-stored", with(old_max, factor, factor),
       "l and O moved to the new maximum, m did not: the next tile takes it for the old one"},
      {"l-forgotten", with(new_max, one, factor),
       "O was rescaled and l was not; both are sums of e^(s - m) with the old m"},
      {"o-forgotten", with(new_max, factor, one),
       "l was rescaled and O was not; both are sums of e^(s - m) with the old m"},
      {"factor-from-tile-maximum", with(new_max, from_tile_max, from_tile_max),
       "the factor is e^(m - row_max), but m' is the larger of the two: where the old maximum "
       "stays it must be 1"},
      {"factor-from-tile-maximum", with(new_max, guarded, guarded),
       "the factor is e^(m - row_max), but m' is the larger of the two: where the old maximum "
       "stays it must be 1"},
      {"factor-from-tile-maximum", with(new_max, zero_for_hidden, zero_for_hidden),
       "the factor is e^(m - row_max), but m' is the larger of the two: where the old maximum "
       "stays it must be 1"},
      {"old-max-dropped", with(tile_max, zero_for_hidden, zero_for_hidden),
       "m became the maximum of this tile alone; it is the largest of all tiles so far"},
      {"old-max-dropped", with(tile_max, from_tile_max, from_tile_max),
       "m became the maximum of this tile alone; it is the largest of all tiles so far"}};
  exercise::check_output(
      {"after",
       0,
       1e-5,
       {"m[0]", "m[1]", "l[0]", "l[1]", "O[0][0]", "O[0][1]", "O[0][2]", "O[0][3]", "O[1][0]",
        "O[1][1]", "O[1][2]", "O[1][3]", "O[2][0]", "O[2][1]", "O[2][2]", "O[2][3]"}},
      got, with(new_max, factor, factor), mistakes);
}

TEST_CASE("the maximum grows in both rows") { check_update(1, 2, 3, 2.5f); }
TEST_CASE("it stays in one row") { check_update(1, 2, 1.5f, 1.75f); }
TEST_CASE("it stays in the other row") { check_update(2, 1, 1.75f, 1.5f); }
TEST_CASE("the first tile") { check_update(-INFINITY, -INFINITY, -2, 3); }
TEST_CASE("a row that sees no key, now or before") { check_update(0.5f, -INFINITY, 1, -INFINITY); }
TEST_CASE("a tile that hides all its keys") { check_update(0.5f, 2, -INFINITY, 3); }
TEST_CASE("the same of the other row") { check_update(0.5f, 2, 3, -INFINITY); }
TEST_CASE("a first row that sees no key, now or before") {
  check_update(-INFINITY, 0.5f, -INFINITY, 1);
}
