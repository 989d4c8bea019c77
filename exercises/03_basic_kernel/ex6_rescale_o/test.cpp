#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <rescale_o.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr int MMAS_D = 2;

struct State {
  float m[2], l[2], O[MMAS_D][4];
};

// m (2 numbers), l (2) and O (8) after `step(half, state)` has been taken for both rows.
template <class Step>
static Numbers after(State state, Step step) {
  for (int half = 0; half < 2; ++half) step(half, state);
  Numbers all;
  for (const float value : state.m) all.push_back(value);
  for (const float value : state.l) all.push_back(value);
  for (const auto& tile : state.O)
    for (const float value : tile) all.push_back(value);
  return all;
}

static void scale_O(State& state, int half, float factor) {
  for (auto& tile : state.O) {
    tile[half * 2] *= factor;
    tile[half * 2 + 1] *= factor;
  }
}

static void check_update(float m0, float m1, float max0, float max1) {
  State before = {{m0, m1}, {3, 5}, {{1, 2, 3, 4}, {-5, 6, -7, 8}}};
  for (int half = 0; half < 2; ++half) {
    if (!std::isinf(before.m[half])) continue;  // nothing was summed yet
    before.l[half] = 0;
    scale_O(before, half, 0);
  }
  const float row_max[2] = {max0, max1};
  const auto new_max = [&](int half) { return std::max(before.m[half], row_max[half]); };
  const auto factor = [&](int half) {
    return std::isinf(new_max(half)) ? 0 : std::exp(before.m[half] - new_max(half));
  };
  const auto with = [&](auto m, auto l_factor, auto O_factor) {
    return after(before, [&](int half, State& state) {
      state.m[half] = m(half);
      state.l[half] *= l_factor(half);
      scale_O(state, half, O_factor(half));
    });
  };
  const auto one = [](int) { return 1.0f; };
  const auto upside_down = [&](int half) { return 1 / factor(half); };
  const auto naive = [&](int half) { return std::exp(before.m[half] - new_max(half)); };
  const auto tile_max = [&](int half) { return row_max[half]; };
  const auto from_tile_max = [&](int half) { return std::exp(before.m[half] - row_max[half]); };

  const Numbers got = after(before, [&](int half, State& state) {
    if (half == 0) emulator::ex03::update_max(state.m, state.l, state.O, row_max);
  });
  Numbers flipped = with(new_max, upside_down, upside_down);
  for (double& value : flipped)
    if (std::isnan(value)) value = 0;  // 0 / 0: whoever flips the factor and keeps the empty row
  const std::vector<exercise::Mistake> mistakes = {
      {"m-updated-first", with(new_max, one, one),
       "nothing was rescaled: m already held the new maximum when the factor was taken, and "
       "e^(m' - m') is 1"},
      {"factor-upside-down", flipped,
       "the factor was e^(m' - m), above 1; what was summed is too large by that, so multiply by "
       "e^(m - m')"},
      {"one-factor-for-both-rows", with(new_max, factor, [&](int) { return factor(0); }),
       "all four elements of a tile of O got the factor of row lane/4; elements 2 and 3 are in "
       "row lane/4 + 8"},
      {"infinity-minus-infinity", with(new_max, naive, naive),
       "a row that has seen no key has m = -Inf before and after, and -Inf - (-Inf) is NaN"},
      {"l-forgotten", with(new_max, one, factor),
       "O was rescaled and l was not; both are sums of e^(s - m) with the old m"},
      {"old-max-dropped", with(tile_max, from_tile_max, from_tile_max),
       "m became the maximum of this tile alone; it is the largest of all tiles so far"}};
  const Numbers expected = with(new_max, factor, factor);
  const auto check_part = [&](const exercise::Output& output, int first, int count) {
    const auto part = [&](const Numbers& all) {
      return Numbers(all.begin() + first, all.begin() + first + count);
    };
    std::vector<exercise::Mistake> here = mistakes;
    for (exercise::Mistake& mistake : here) mistake.output = part(mistake.output);
    exercise::check_output(output, part(got), part(expected), here);
  };
  check_part({"m"}, 0, 2);
  check_part({"l"}, 2, 2);
  check_part({"O_rmem", 4}, 4, MMAS_D * 4);
}

TEST_CASE("the maximum grows in both rows") { check_update(1, 2, 3, 2.5f); }
TEST_CASE("it stays in one row") { check_update(1, 2, 1.5f, 1.75f); }
TEST_CASE("the first tile") { check_update(-INFINITY, -INFINITY, -2, 3); }
TEST_CASE("a row that sees no key, now or before") { check_update(0.5f, -INFINITY, 1, -INFINITY); }
