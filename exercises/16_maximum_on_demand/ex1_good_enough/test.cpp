#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <good_enough.hpp>
#include <limits>
#include <stdexcept>

#include "exercises/support/warp.hpp"

using namespace emulator;

constexpr float LIMIT = 0x1p50f, SMALL = 0.25f;
constexpr float INFINITE = std::numeric_limits<float>::infinity();
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

struct Value {
  const char* name;
  float value;
};
const Value kSmall = {"0.25", SMALL}, kLarge = {"2^56", 0x1p56f}, kInf = {"Inf", INFINITE},
            kNaN = {"NaN", NOT_A_NUMBER};
// Those that have to pass, and those with which O overflows.
const Value kGood[] = {{"1.5", 1.5f},     {"24", 24},        {"300", 300},      {"3000", 3000},
                       {"2^15", 0x1p15f}, {"2^25", 0x1p25f}, {"2^35", 0x1p35f}, {"2^38", 0x1p38f}};
const Value kTooLarge[] = {{"2^56", 0x1p56f},   {"2^70", 0x1p70f},   {"2^98", 0x1p98f},
                           {"2^119", 0x1p119f}, {"2^126", 0x1p126f}, kInf};

// The two sums of some lanes of a warp, while all others have 0.25 and 0.25.
struct Warp {
  std::string lanes;  // "lane 5"
  bool (*has)(int lane);
  Value row[2];

  bool again() const {
    bool any = false;
    for (int lane = 0; lane < 32; ++lane)
      for (const Value& value : row) any |= has(lane) && !(value.value < LIMIT);
    return any;
  }
};

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  bool large(float sum) const {
    const double limit = is.number("limit", LIMIT);
    return is("finite")             ? !std::isfinite(sum)
           : is("not-inf")          ? std::isinf(sum)
           : is("nan-is-not-large") ? sum >= limit
                                    : !(sum < limit);
  }
  bool again(const float (&sum)[2]) const {
    const bool me = is("each")                ? large(sum[0]) || large(sum[1])
                    : is("both-rows-needed")  ? large(sum[0]) && large(sum[1])
                    : is("max")               ? large(std::fmax(sum[0], sum[1]))
                    : is("std-max")           ? large(std::max(sum[0], sum[1]))
                    : is("std-max-exchanged") ? large(std::max(sum[1], sum[0]))
                    : is("row-0")             ? large(sum[0])
                    : is("row-1")             ? large(sum[1])
                                              : large(sum[0] + sum[1]);
    if (is("four-lanes-by-themselves")) {
      const float quad = shfl_xor(me ? 1.0f : 0.0f, 1) + (me ? 1.0f : 0.0f);
      return shfl_xor(quad, 2) + quad > 0;
    }
    return is("lane-by-itself")     ? me
           : is("all-must-agree")   ? !warp_any(!me)
           : is("lane-0-decides")   ? shfl(me, 0) != 0
           : is("sure-do-not-vote") ? me || warp_any(false)
           : is("only-sure-vote")   ? me && warp_any(me)
           : is("any-is-good")      ? warp_any(!me)
           : is("all-are-good")     ? !warp_any(me)
                                    : warp_any(me);
  }
};

static const exercise::Table MISTAKES(R"(
nan-passes: {,each }nan-is-not-large
  a NaN passes: no comparison with it is true, so ask for what is good, and negate: !(sum < limit)
maximum-drops-nan: max; std-max; std-max-exchanged
  the larger of the two sums was looked at: fmax, and std::max by the order of its arguments, drop
  a NaN. The sum of both keeps it
one-row-only: row-0; row-1
  one of the lane's two rows was looked at
both-rows-needed
  the tile is recomputed only if both rows of a lane are too large. One row is enough
limit-too-small: limit={0,1,16,200,2000,2e4,2e7,2e10,2e11,4e11}
  sums pass only up to a small number, and most tiles of some ordinary data are recomputed. 2^40 has
  to pass
limit-too-large: finite; {,each }not-inf; limit={2e17,3e21,9e29,2e36,2.5e38}
  sums pass up to a number with which O overflows: 4 lanes, a V of 2^60 and 2^14 tiles are a
  factor of 2^76, so a sum that is finite is not enough
lane-by-itself
  each lane decides for itself, and the lanes of a warp have two answers. A product needs all 32:
  warp_any
four-lanes-by-themselves
  the four lanes of a row agree, and the warp does not. A product needs all 32: warp_any
all-must-agree
  the tile is recomputed only if all lanes need it. One lane is enough
lane-0-decides
  lane 0's sums decide for the warp
not-all-vote: sure-do-not-vote; only-sure-vote
  only some lanes call warp_any: after || or &&, it is called only where the left side has not
  decided yet. All 32 lanes vote
answer-upside-down: any-is-good; all-are-good
  true is returned where the tile is good enough. It means that the tile is recomputed
)");

struct Run {
  std::string lanes = std::string(32, ' ');  // each lane's answer, recompute or good enough
  std::string hazards, kinds;                // or what was thrown
};

template <class Again>
static Run run(const Warp& warp, Again again) {
  Run result;
  fa::simt::Config config;
  config.counters = false;
  try {
    const fa::simt::Report report = exercise::run_block(
        32, 0,
        [&] {
          const int lane = lane_index();
          const bool has = warp.has(lane);
          const float sum[2] = {has ? warp.row[0].value : SMALL, has ? warp.row[1].value : SMALL};
          const bool said = again(sum);
          warp_sync();
          result.lanes[lane] = said ? '!' : '.';
        },
        config);
    result.hazards = exercise::hazards(report);
    result.kinds = exercise::hazard_kinds(report);
  } catch (const std::runtime_error& error) {
    result.hazards = std::string(error.what()) + "\n";
    result.kinds = "thrown\n";
  }
  return result;
}

template <class Again>
static std::string shown(const std::vector<Warp>& warps, Again again) {
  std::string all;
  for (const Warp& warp : warps) {
    const Run one = run(warp, again);
    all += one.kinds.empty() ? one.lanes + "\n" : one.kinds;
  }
  return all;
}

static void check_warps(const std::vector<Warp>& warps) {
  const auto answer = [](const float(&sum)[2]) { return static_cast<bool>(ex16::again(sum)); };
  std::string first;
  int wrong = 0;
  for (const Warp& warp : warps) {
    const Run got = run(warp, answer);
    const std::string expected(32, warp.again() ? '!' : '.');
    if (got.hazards.empty() && got.lanes == expected) continue;
    if (++wrong > 1) continue;
    first = "the two sums are " + std::string(warp.row[0].name) + " and " + warp.row[1].name +
            " in " + warp.lanes + (warp.lanes == "all lanes" ? "" : ", else 0.25 and 0.25") +
            ":\n" + got.hazards;
    if (got.hazards.empty())
      first += "  lane      0 …\n  got       " + got.lanes + "\n  expected  " + expected +
               "    (!: again, .: good enough)\n";
  }
  first += std::to_string(wrong) + " of " + std::to_string(warps.size()) + " warps are wrong";
  const auto looks = exercise::looks<Way>(MISTAKES, [&](const Way& way) {
    return shown(warps, [&](const float(&sum)[2]) { return way.again(sum); });
  });
  exercise::check_shown(wrong == 0, first, shown(warps, answer), looks);
}

static std::vector<Warp> in_all_lanes(const Value* begin, const Value* end) {
  std::vector<Warp> warps;
  for (const Value* value = begin; value != end; ++value)
    warps.push_back({"all lanes", [](int) { return true; }, {*value, *value}});
  return warps;
}

TEST_CASE("sums that have to pass") { check_warps(in_all_lanes(kGood, std::end(kGood))); }
TEST_CASE("sums that are too large") { check_warps(in_all_lanes(kTooLarge, std::end(kTooLarge))); }
TEST_CASE("NaN in both rows") { check_warps(in_all_lanes(&kNaN, &kNaN + 1)); }
TEST_CASE("one of the two rows") {
  std::vector<Warp> warps;
  for (const Value& value : {kGood[7], kLarge, kInf, kNaN})
    for (const int row : {0, 1})
      warps.push_back({"all lanes",
                       [](int) { return true; },
                       {row == 0 ? value : kSmall, row == 1 ? value : kSmall}});
  check_warps(warps);
}
TEST_CASE("one lane") {
  std::vector<Warp> warps;
  for (const Value& value : {kGood[7], kLarge, kInf, kNaN}) {
    warps.push_back({"lane 0", [](int lane) { return lane == 0; }, {value, value}});
    warps.push_back({"lane 5", [](int lane) { return lane == 5; }, {value, value}});
    warps.push_back({"lane 31", [](int lane) { return lane == 31; }, {value, value}});
  }
  check_warps(warps);
}
TEST_CASE("many lanes, and not all") {
  check_warps({{"lanes 16 to 31", [](int lane) { return lane >= 16; }, {kLarge, kLarge}},
               {"all lanes but 0", [](int lane) { return lane > 0; }, {kLarge, kLarge}},
               {"all lanes but 9", [](int lane) { return lane != 9; }, {kNaN, kSmall}}});
}
