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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  float maximum(const State& state, const float (&row_max)[2], int half) const {
    return is("one-maximum-for-both-rows")
               ? std::max({state.m[0], state.m[1], row_max[0], row_max[1]})
               : std::max(state.m[half], row_max[half]);
  }
  float factor(const State& state, const float (&row_max)[2], int half) const {
    const float old = state.m[half], m = maximum(state, row_max, half), tile = row_max[half];
    if (is("from-tile-unguarded")) return std::exp(old - tile);
    if (is("from-tile-or-0")) return std::exp(old - (std::isinf(tile) ? 0 : tile));
    if (is("one-maximum-for-both-rows") || is("infinity-minus-infinity")) return std::exp(old - m);
    if (std::isinf(m) || (is("hidden-tile-wipes") && std::isinf(tile)))
      return is("upside-down") ? 1 / 0.0f : 0;
    if (is("from-tile")) return std::exp(old - tile);
    return is("upside-down") ? 1 / std::exp(old - m) : std::exp(old - m);
  }
  // True if the loop over the rows is left before this row.
  bool is_skipped(const State& state, const float (&row_max)[2], int half) const {
    const auto ends = [&](int row) {
      const float m = std::max(state.m[row], row_max[row]);
      return is("at-hidden-tile")  ? std::isinf(row_max[row])
             : is("at-hidden-row") ? std::isinf(m)
                                   : m == state.m[row];
    };
    return is("second-skipped") ? half == 1 && ends(0) : is("both-skipped") && (ends(0) || ends(1));
  }
  float factor_of_O(const float (&factors)[2], int tile, int i) const {
    return is("factor-of-the-first")    ? factors[0]
           : is("factor-of-the-second") ? factors[1]
           : is("both-factors")         ? factors[0] * factors[1]
           : is("columns-for-rows")     ? factors[i % 2]
           : is("tiles-for-rows")       ? factors[tile % 2]
           : is("o-kept") || (is("one-column-of-two") && i % 2) ||
                   tile >= is.integer("tiles", MMAS_D)
               ? 1
               : factors[i / 2];
  }
  Numbers update(State state, const float (&row_max)[2]) const {
    const State before = state;
    float factors[2];
    for (int half = 0; half < 2; ++half) {
      const bool skipped =
          is_skipped(before, row_max, half) || (is("second-row-forgotten") && half == 1);
      const float m = maximum(before, row_max, half);
      factors[half] = skipped || is("m-updated-first") ? 1 : factor(before, row_max, half);
      if (!skipped && !is("m-not-stored"))
        state.m[half] = is("m-of-tile")                            ? row_max[half]
                        : is("subtrahend-stored") && std::isinf(m) ? 0
                                                                   : m;
      if (!is("l-forgotten"))
        state.l[half] *= std::pow(factors[half], static_cast<float>(is.integer("l-times", 1)));
    }
    for (int tile = 0; tile < MMAS_D; ++tile)
      for (int i = 0; i < 4; ++i) state.O[tile][i] *= factor_of_O(factors, tile, i);
    Numbers all = numbers_of(state);
    for (double& value : all)
      if (is("empty-row-kept") && std::isnan(value)) value = 0;
    return all;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Numbers update(State state, const float (&row_max)[2]) const {
    emulator::ex03::update_max(state.m, state.l, state.O, row_max);
    return numbers_of(state);
  }
};

static const exercise::Table MISTAKES(R"(
m-updated-first
  nothing was rescaled: m already held the new maximum when the factor was taken, and e^(m' - m') is
  1. Or there is no factor
factor-upside-down: upside-down {,empty-row-kept}
  the factor was e^(m' - m), above 1. The old sums are too large by that, so multiply by e^(m - m')
one-factor-for-both-rows: factor-of-the-first
  all four elements of a tile of O got the factor of row lane/4. Elements 2 and 3 are in row lane/4
  + 8
one-factor-for-both-rows: factor-of-the-second
  all four elements of a tile of O got the factor of row lane/4 + 8. Elements 0 and 1 are in row
  lane/4
one-factor-for-both-rows: both-factors
  all four elements of a tile of O got both factors. Elements 0 and 1 are in row lane/4, 2 and 3 in
  row lane/4 + 8
columns-for-rows
  element i of a tile of O got the factor of row i % 2. Its row is i / 2, and i % 2 the column
one-column-of-two
  of the two neighbours that a lane has in a row only the left one was rescaled: elements 0 and 1, 2
  and 3
tiles-for-rows
  even and odd tiles of O got the two factors. Each tile holds both rows, elements 0 and 1 the
  first, 2 and 3 the second
first-tile-only: tiles=1
  only the first tile of O was rescaled. O_rmem has MMAS_D of them
two-tiles-only: tiles=2
  only the first two tiles of O were rescaled. O_rmem has MMAS_D of them
l-rescaled-again: l-times={3,6,12}
  l was multiplied inside the loop over O, once for each tile or element. There is one l per row,
  and it is multiplied once
l-rescaled-again: l-times=2
  l was multiplied by the factor twice. Once moves it to the new maximum
return-for-continue: {second-skipped,both-skipped} {at-hidden-tile,at-hidden-row}
  one of the two rows sees no key, and the other one was not updated either: return or break in the
  loop over the rows, where continue would do
return-for-continue: {second-skipped,both-skipped}
  the maximum of one row stays, and the other row was not updated either: return or break in the loop
  over the rows, where continue would do
second-row-forgotten
  only row lane/4 was updated. Index 1 of m and l, elements 2 and 3 of O are row lane/4 + 8
one-maximum-for-both-rows
  both rows got the larger of their two maxima. Each row has its own
infinity-minus-infinity
  a row that has seen no key has m = -Inf before and after, and -Inf - (-Inf) is NaN
hidden-tile-wipes
  a tile in which the row sees no key made the factor 0 and wiped what earlier tiles had summed. The
  maximum stays there, and the factor is 1
subtrahend-stored
  where no key was visible, 0 was stored as the maximum: 0 only replaces -Inf in the subtraction. m
  stays -Inf
m-not-stored
  l and O moved to the new maximum, m did not: the next tile takes it for the old one
l-forgotten
  O was rescaled and l was not. Both are sums of e^(s - m) with the old m
o-forgotten: o-kept
  l was rescaled and O was not. Both are sums of e^(s - m) with the old m
factor-from-tile-maximum: from-tile-unguarded; from-tile; from-tile-or-0
  the factor is e^(m - row_max), but m' is the larger of the two: where the old maximum stays it must
  be 1
old-max-dropped: m-of-tile {from-tile-or-0,from-tile-unguarded}
  m became the maximum of this tile alone. It has to be the largest of all tiles so far
)");

static void check_update(float m0, float m1, float max0, float max1) {
  State before = {{m0, m1}, {3, 5}, {{1, 2, 3, 4}, {-5, 6, -7, 8}, {9, -1, 5, 7}}};
  for (int half = 0; half < 2; ++half) {
    if (!std::isinf(before.m[half])) continue;
    before.l[half] = 0;  // nothing was summed yet
    for (auto& tile : before.O) tile[half * 2] *= 0, tile[half * 2 + 1] *= 0;
  }
  exercise::check_output<Way, Answer>(
      {"after",
       0,
       1e-5,
       {"m[0]", "m[1]", "l[0]", "l[1]", "O[0][0]", "O[0][1]", "O[0][2]", "O[0][3]", "O[1][0]",
        "O[1][1]", "O[1][2]", "O[1][3]", "O[2][0]", "O[2][1]", "O[2][2]", "O[2][3]"}},
      MISTAKES, [&](const auto& answer) {
        return answer.update(before, {max0, max1});
      });
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
