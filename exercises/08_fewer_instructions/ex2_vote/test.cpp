#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vote.hpp>

#include "exercises/support/warp.hpp"

using exercise::Numbers;
using namespace emulator;

constexpr int MMAS_D = 2;
constexpr float SCALE_LOG2 = 0.25f;  // so MAX_GROWTH is a difference of 32
constexpr float NONE = -std::numeric_limits<float>::infinity();

struct State {
  float m[2], l[2], O[MMAS_D][4];
};

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  static float quad_max(float x) {
    x = std::max(x, shfl_xor(x, 1));
    return std::max(x, shfl_xor(x, 2));
  }
  bool grew(float row_max, float m) const {
    const float growth = row_max - m;
    return is("no-scale") ? growth > 8 : is("no-limit") ? row_max > m : growth * SCALE_LOG2 > 8;
  }
  // Returns whether this lane rescales.
  bool decides(const bool (&grown)[2]) const {
    const bool me = is("row-0")       ? grown[0]
                    : is("row-1")     ? grown[1]
                    : is("both-rows") ? grown[0] && grown[1]
                                      : grown[0] || grown[1];
    return is("lane-by-itself")   ? me
           : is("always")         ? true
           : is("all-must-agree") ? !warp_any(!me)
           : is("upside-down")    ? !warp_any(me)
           : is("or-vote")        ? me || warp_any(false)
           : is("and-vote")       ? me && warp_any(me)
           : is("lane-0-decides") ? shfl(me, 0) != 0
                                  : warp_any(me);
  }
  void raise(State& state, const float (&lane_max)[2]) const {
    float row_max[2] = {lane_max[0], lane_max[1]};
    const bool early = is("shuffles-first");
    if (early)
      for (float& one : row_max) one = quad_max(one);
    const bool grown[2] = {grew(row_max[0], state.m[0]), grew(row_max[1], state.m[1])};
    if (!decides(grown)) return;
    for (int half = 0; half < 2; ++half) {
      if (!early && !is("lanes-maximum")) row_max[half] = quad_max(row_max[half]);
      const float old = state.m[half],
                  m = is("tile") ? row_max[half] : std::max(old, row_max[half]);
      const float subtrahend = m == NONE && !is("infinity") ? 0 : m;
      const float growth = (is("m-first") ? m - subtrahend : old - subtrahend);
      const float factor = is("exp")         ? std::exp(growth * SCALE_LOG2)
                           : is("unscaled")  ? std::exp2(growth)
                           : is("wrong-way") ? 1 / std::exp2(growth * SCALE_LOG2)
                                             : std::exp2(growth * SCALE_LOG2);
      if (!is("m-not-stored")) state.m[half] = m;
      if (!is("l-forgotten")) state.l[half] *= factor;
      if (is("l-summed")) {
        state.l[half] += shfl_xor(state.l[half], 1);
        state.l[half] += shfl_xor(state.l[half], 2);
      }
      if (is("o-forgotten")) continue;
      for (auto& c : state.O) {
        c[half * 2] *= factor;
        c[half * 2 + 1] *= factor;
      }
    }
  }
};

struct Answer {
  void raise(State& state, const float (&lane_max)[2]) const {
    ex08::raise_row_max(state.m, state.l, state.O, lane_max, SCALE_LOG2);
  }
};

static const exercise::Table MISTAKES(R"(
lane-by-itself
  each lane decides for itself: some leave, and the others wait for them in a shuffle. The warp
  decides: warp_any
not-all-vote: or-vote; and-vote
  only some lanes call warp_any: after || or &&, it is called only where the left side has not decided
  yet. All 32 lanes vote
all-must-agree
  the warp rescales only if all lanes need it. One lane is enough
lane-0-decides
  lane 0 decides for the warp. warp_any asks all lanes
vote-upside-down: upside-down
  the warp rescales where no lane needs it, and keeps its maxima where one does
one-row-only: row-0; row-1
  a lane votes for one of its two rows only
both-rows-needed: both-rows
  a lane votes only if both of its rows have grown. One is enough
no-vote: always
  right sums, but every tile has the shuffles and rescales O. Return before them if no lane votes
shuffles-before-the-vote: shuffles-first
  right, but quad_max is called in every tile, before the vote. A lane can vote with the maximum of
  its own columns, because the largest score of the row is in one of the four lanes
shuffles-before-the-vote: shuffles-first lane-by-itself
  quad_max is called in every tile, and then each row decides for itself. Let each lane vote with the
  maximum of its own columns first, and return before the shuffles if no lane votes
growth-not-scaled: no-scale
  8 is a power of 2, and the growth was compared in the units of the scores. Multiply it by
  scale_log2
limit-forgotten: no-limit
  the warp rescales whenever a maximum has grown. Weights may reach 2^8, so m may stay until a score
  is MAX_GROWTH above it
lanes-own-maximum: lanes-maximum
  each lane took the maximum of its own columns. The four lanes of a row need the same m: quad_max
old-max-dropped: tile
  m became the maximum of this tile alone. In a row that has not grown, the old m is larger
infinity-minus-infinity: infinity
  a row that has not seen a key has m = -inf before and after, and -inf - (-inf) is NaN
m-not-stored
  l and O moved to the new maximum, but m did not
m-updated-first: m-first
  the factor is 1, because m already held the new maximum when the factor was computed
factor-upside-down: wrong-way
  the factor was 2^(scale_log2 (m' - m)). The old sums are too large by that: multiply by its inverse
exp-for-exp2: exp
  the factor is a power of 2, because scale_log2 has log2 e in it: exp2
factor-not-scaled: unscaled
  the factor was 2^(m - m'), without scale_log2
l-forgotten
  O was rescaled but l was not. Both are sums of weights with the old m
o-forgotten
  l was rescaled but O was not. Both are sums of weights with the old m
l-added-up: l-summed
  l was added up over the four lanes of its row. It stays the sum of this lane's columns until the
  last tile, or it is added up again in the next tile
)");

struct Run {
  Numbers values = Numbers(32 * 8, NAN);  // m, l, and O[0][0], O[1][3] and their like, per lane
  std::string hazards, kinds;             // or what was thrown, and the instructions named in it
  int64_t shuffles = 0;
};

// A warp before a tile, and the scores of that tile, by row, and column of a lane.
struct Tile {
  float (*m)(int row);
  float (*max)(int row, int quad_lane);
};

template <class Any>
static Run run(const Tile& tile, const Any& any) {
  Run result;
  try {
    const fa::simt::Report report = exercise::run_block(32, 0, [&] {
      const int lane = lane_index();
      State state;
      float lane_max[2];
      for (int half = 0; half < 2; ++half) {
        const int row = lane / 4 + half * 8;
        const bool empty = tile.m(row) == NONE;
        state.m[half] = tile.m(row);
        lane_max[half] = tile.max(row, lane % 4);
        state.l[half] = empty ? 0 : 1 + static_cast<float>(lane);
        for (int i = 0; i < MMAS_D; ++i)
          for (int j = 0; j < 2; ++j)
            state.O[i][half * 2 + j] = empty ? 0 : static_cast<float>(row + i * 3 + j) - 4;
      }
      any.raise(state, lane_max);
      warp_sync();
      const float values[] = {state.m[0],    state.m[1],    state.l[0],    state.l[1],
                              state.O[0][0], state.O[1][1], state.O[0][2], state.O[1][3]};
      std::copy(values, values + 8, &result.values[lane * 8]);
    });
    result.hazards = exercise::hazards(report);
    result.kinds = exercise::hazard_kinds(report);
    for (const char* name : {"warp_any", "shfl_xor"})
      if (result.hazards.find(name) != std::string::npos) result.kinds += name;
    result.shuffles = report.counters.shuffle_instructions;
  } catch (const std::runtime_error& error) {
    result.hazards = std::string(error.what()) + "\n";
    result.kinds = "thrown\n";
  }
  return result;
}

struct Unchanged {
  void raise(State&, const float (&)[2]) const {}
};

// The right values after the tile. A row that has grown by less than the limit may keep its m, with
// the same l and O, even if other rows are rescaled.
static Numbers right_values(const Tile& tile, const Numbers& got) {
  Numbers right = run(tile, Way{}).values;
  const Numbers before = run(tile, Unchanged{}).values;
  for (size_t i = 0; i < right.size(); ++i) {
    const size_t lane = i / 8, half = i % 8 < 4 ? i % 2 : i % 8 / 6;
    const size_t of_row = lane / 4 * 32 + half;  // m in the first lane of the row
    if (got[of_row] == before[of_row] && !Way{}.grew(right[of_row], before[of_row]))
      right[i] = before[i];
  }
  return right;
}

// Where no lane has to vote, a shuffle costs time in each of most tiles.
enum class Shuffles { None, Any };

static void check_tile(const Tile& tile, Shuffles shuffles = Shuffles::Any) {
  const auto shown = [&](const Run& of) {
    return !of.kinds.empty() || shuffles == Shuffles::Any
               ? of.kinds
               : std::to_string(of.shuffles) + " shuffles";
  };
  const Run got = run(tile, Answer{});
  exercise::check_shown(
      shown(got) == shown(run(tile, Way{})),
      got.kinds.empty() ? "the warp executes " + shown(got) + ", expected none" : got.hazards,
      shown(got),
      exercise::looks<Way>(MISTAKES, [&](const Way& way) { return shown(run(tile, way)); }));
  if (!got.kinds.empty()) return;
  const std::vector<std::string> columns = {"m[0]",    "m[1]",    "l[0]",    "l[1]",
                                            "O[0][0]", "O[1][1]", "O[0][2]", "O[1][3]"};
  exercise::check_output(
      {"lane", 8, 1e-5, columns}, got.values, right_values(tile, got.values),
      exercise::mistakes<Way>(MISTAKES, [&](const Way& way) { return run(tile, way).values; }));
}

static float ten(int row) { return 10 + static_cast<float>(row); }

TEST_CASE("no maximum has moved") {
  check_tile({ten, [](int row, int lane) { return static_cast<float>(row - 50 * lane); }},
             Shuffles::None);
}
TEST_CASE("maxima have grown by less than 2^2") {
  check_tile({ten, [](int row, int lane) { return static_cast<float>(row + 11 + lane); }},
             Shuffles::None);
}
TEST_CASE("maxima have grown by less than 2^8") {
  check_tile({ten, [](int row, int lane) { return static_cast<float>(row + 13 + 9 * lane); }},
             Shuffles::None);
}
TEST_CASE("every maximum has grown by more") {
  check_tile({ten, [](int row, int lane) { return static_cast<float>(3 * row + 50 + lane); }});
}
TEST_CASE("row 5 has grown, and one lane shows it") {
  check_tile({ten, [](int row, int lane) {
                return row == 5 && lane == 2 ? 60.0f : static_cast<float>(row - 3 * lane);
              }});
}
TEST_CASE("row 13 has grown, others by less") {
  check_tile({ten, [](int row, int lane) {
                return row == 13 ? 70.0f + static_cast<float>(lane)
                                 : static_cast<float>(row + 9 + 2 * lane);
              }});
}
TEST_CASE("row 0 and row 8 have grown") {
  check_tile({ten, [](int row, int lane) {
                return row % 8 == 0 ? 44.0f + static_cast<float>(row - lane) : 1.0f;
              }});
}
TEST_CASE("the first tile") {
  check_tile({[](int) { return NONE; },
              [](int row, int lane) { return static_cast<float>(row - 2 * lane); }});
}
TEST_CASE("rows that have not seen a key") {
  check_tile({[](int row) { return row % 3 ? ten(row) : NONE; },
              [](int row, int lane) {
                return row % 3 == 0 ? NONE : row == 4 ? 60.0f : static_cast<float>(row + lane);
              }});
}
TEST_CASE("rows that see their first key, and a tile that hides all of row 2") {
  check_tile({[](int row) { return row > 8    ? ten(row)
                                   : row == 2 ? 12.0f
                                              : NONE; },
              [](int row, int lane) {
                return row == 2 || lane == 0 ? NONE : static_cast<float>(row - 100 - lane);
              }});
}
TEST_CASE("no row has seen a key yet") {
  check_tile({[](int) { return NONE; }, [](int, int) { return NONE; }});
}
