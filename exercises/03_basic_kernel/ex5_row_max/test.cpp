#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <row_max.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Numbers;

constexpr int MMAS_KV = 4, COLUMNS = MMAS_KV * 8;

// Results are [row][lane of the quad]: result of lane t and half h is element (h * 8 + t/4, t%4).
static int index(int lane, int half) { return (half * 8 + lane / 4) * 4 + lane % 4; }

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  // True if the maximum of a lane's `half` takes an element that the lane has.
  bool takes(int half, int row, int column) const {
    const bool right = half == row / 8;
    return is("rows-mixed")            ? true
           : is("every-other-element") ? column % 2 == half
           : is("one-column-of-two")   ? right && column % 2 == 0
           : is("first-tile-only")     ? right && column < 8
           : is("starts-with-first")   ? right || (half == 1 && column < 8 && column % 2 == 0)
           : is("starts-with-maximum") ? right || half == 1
                                       : right;
  }
  Numbers row_max(const std::vector<float>& S) const {
    const double least = is("starts-at-zero")  ? 0
                         : is("starts-at-min") ? std::numeric_limits<float>::min()
                                               : -INFINITY;
    Numbers value(64, least);
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < COLUMNS; ++column)
        for (int half = 0; half < 2; ++half) {
          double& mine = value[index(row % 8 * 4 + column / 2 % 4, half)];
          if (takes(half, row, column))
            mine = std::max(mine, static_cast<double>(S[row * COLUMNS + column]));
        }
    const Numbers own = value;
    for (const int mask : {is.integer("first", 1), is.integer("second", 2), is.integer("third", 0),
                           is.integer("fourth", 0), is.integer("fifth", 0)}) {
      const Numbers sent = is("first-exchange-lost") ? own : value;
      for (int lane = 0; lane < 32 && mask != 0; ++lane)
        for (int half = 0; half < 2; ++half) {
          double& mine = value[index(lane, half)];
          mine = std::max(mine, sent[index(lane ^ mask, half)]);
        }
    }
    if (is("rows-exchanged")) std::rotate(value.begin(), value.begin() + 32, value.end());
    return value;
  }
};

static const exercise::Table MISTAKES(R"(
mask-0x10: second=16
  the second exchange went to lane ^ 16, which holds a row four further down. The mask is 0b10, not
  0x10
first-exchange-lost
  the second exchange sent what the lane had at first, so no lane ever hears of the one diagonally
  opposite. Send the maximum so far
rows-mixed
  c[0] to c[3] went into one maximum. c[0] c[1] are in row lane/4, c[2] c[3] eight rows further down
starts-at-zero
  the maximum started from 0, and all scores of a row may be negative. Start from -Inf
starts-at-zero: starts-at-min
  the maximum started from numeric_limits<float>::min(), the smallest number above 0, and all scores
  of a row may be negative. Start from -Inf
no-exchange: first=0 second=0
  each lane has the maximum of its columns only. It needs those of the other three lanes of its quad
one-exchange: second=0
  one exchange, with mask 1, tells of one other lane. The second, with mask 2, tells what the other
  two have found
one-exchange: first=0
  one exchange, with mask 2, tells of one other lane. A quad has four
other-quads: first={1,2} second=4
  the second exchange went to lane ^ 4, which holds the next row. The lanes of a quad differ in
  their two lowest bits: masks 1 and 2
other-quads: first=4 second=8 third={0,16}
  the exchanges went to lanes of other rows. The lanes of a quad differ in their two lowest bits:
  masks 1 and 2
whole-warp: third=4
  the third exchange, with mask 4, went to the next row. A row has four lanes, and two exchanges
  reach them all
every-other-element
  c[half] and c[half + 2] were taken, which are two rows. Row lane/4 has c[0] c[1], the row eight
  further down c[2] c[3]
one-column-of-two
  of the two neighbours that a lane has in a row only the left one was looked at: c[0] and c[1], c[2]
  and c[3]
first-tile-only
  only the first 16x8 tile was looked at. S_rmem has MMAS_KV of them
starts-with-the-other-row: starts-with-first
  result[1] started from S_rmem[0][0], which is in row lane/4. c[2] and c[3] are in the row eight
  further down. Start from -Inf
starts-with-the-other-row: starts-with-maximum
  result[1] started from the maximum of row lane/4. Each of the two rows starts from -Inf
rows-exchanged
  result[0] and result[1] have changed places: [0] is for row lane/4, c[0] c[1]
whole-warp: first=16 second=8 third=4 fourth=2 fifth=1
  all 32 lanes exchanged, and eight rows share one maximum. A row has four lanes
)");

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
        "some lanes called shfl_xor and others did not. A warp instruction needs all 32 lanes, so "
        "that it must not be in a branch that lanes take differently"}});
  if (!report.hazards.empty()) return;
  exercise::check_output(
      {"row_max", 4, 0}, got, Way{}.row_max(S),
      exercise::mistakes<Way>(MISTAKES, [&](const Way& way) { return way.row_max(S); }));
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
