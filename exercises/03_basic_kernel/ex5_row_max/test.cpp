#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <row_max.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Numbers;

constexpr int MMAS_KV = 4, COLUMNS = MMAS_KV * 8;

// Results are [row][lane of the quad]: result of lane t and half h is element (h * 8 + t/4, t%4).
static int index(int lane, int half) { return (half * 8 + lane / 4) * 4 + lane % 4; }

// The maximum of what each lane has, of its rows that `mixed` allows, starting from `least`.
static Numbers partial(const std::vector<float>& S, bool mixed = false, double least = -INFINITY) {
  Numbers result(64, least);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < COLUMNS; ++column) {
      for (int half = 0; half < 2; ++half) {
        const int at = index(row % 8 * 4 + column / 2 % 4, half);
        if (mixed || half == row / 8)
          result[at] = std::max(result[at], static_cast<double>(S[row * COLUMNS + column]));
      }
    }
  }
  return result;
}

// Exchanges with each mask in turn; `own`: what is sent is always what the lane had at first.
static Numbers butterfly(const Numbers& first, std::initializer_list<int> masks, bool own = false) {
  Numbers value = first;
  for (const int mask : masks) {
    const Numbers sent = own ? first : value;
    for (int lane = 0; lane < 32; ++lane) {
      for (int half = 0; half < 2; ++half) {
        double& mine = value[index(lane, half)];
        mine = std::max(mine, sent[index(lane ^ mask, half)]);
      }
    }
  }
  return value;
}

static void check_row_max(const std::vector<float>& S) {
  Numbers got(64, NAN);
  const auto report = exercise::run_block(32, 0, [&] {
    float S_rmem[MMAS_KV][4], result[2] = {NAN, NAN};
    const int lane = lane_index();
    for (int tile = 0; tile < MMAS_KV; ++tile)
      for (int i = 0; i < 4; ++i)
        S_rmem[tile][i] = S[(i / 2 * 8 + lane / 4) * COLUMNS + tile * 8 + lane % 4 * 2 + i % 2];
    ex03::row_max(result, S_rmem);
    for (int half = 0; half < 2; ++half) got[index(lane, half)] = result[half];
  });
  exercise::check_no_hazards(
      report,
      {{"shuffle-in-a-branch", exercise::has(report, fa::simt::HazardKind::kBarrierDivergence),
        "some lanes called shfl_xor and others did not; a warp instruction needs all 32 "
        "lanes, so it stands in no branch that lanes take differently"}});
  if (!report.hazards.empty()) return;
  const Numbers has = partial(S);
  exercise::check_output(
      {"row_max", 4, 0}, got, butterfly(has, {1, 2}),
      {{"mask-0x10", butterfly(has, {1, 0x10}),
        "the second exchange went to lane ^ 16, which holds a row four further down; the mask is "
        "0b10, not 0x10"},
       {"first-exchange-lost", butterfly(has, {1, 2}, true),
        "the second exchange sent what the lane had at first, so no lane ever hears of the one "
        "diagonally opposite; send the maximum so far"},
       {"rows-mixed", butterfly(partial(S, true), {1, 2}),
        "c[0] to c[3] went into one maximum; c[0] c[1] are in row lane/4, c[2] c[3] eight rows "
        "further down"},
       {"starts-at-zero", butterfly(partial(S, false, 0), {1, 2}),
        "the maximum started from 0, and all scores of a row may be negative; start from -Inf"},
       {"whole-warp", butterfly(has, {16, 8, 4, 2, 1}),
        "all 32 lanes exchanged, and eight rows share one maximum; a row has four lanes"}});
}

TEST_CASE("score = 100 row + column") {
  std::vector<float> S;
  for (int i = 0; i < 16 * COLUMNS; ++i)
    S.push_back(static_cast<float>(i / COLUMNS * 100 + i % COLUMNS));
  check_row_max(S);
}
TEST_CASE("score = 100 row - column") {
  std::vector<float> S;
  for (int i = 0; i < 16 * COLUMNS; ++i)
    S.push_back(static_cast<float>(i / COLUMNS * 100 - i % COLUMNS));
  check_row_max(S);
}
TEST_CASE("random scores") { check_row_max(exercise::random_numbers(16 * COLUMNS, 1)); }
TEST_CASE("all scores negative") {
  std::vector<float> S = exercise::random_numbers(16 * COLUMNS, 2);
  for (float& score : S) score -= 20;
  check_row_max(S);
}
