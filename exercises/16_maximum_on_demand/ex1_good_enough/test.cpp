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

// The two sums of some lanes of a warp; all others have 0.25 and 0.25.
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

// The function as people write it: right as it stands here, and each mistake is a change.
struct Way {
  enum Of { kSum, kEach, kMax, kStdMax, kStdMaxExchanged, kRow0, kRow1, kBothRows } of = kSum;
  bool nan_is_too_large = true;
  enum Limit { kFinite, kNotInf, kNumber } limit = kNumber;
  float number = LIMIT;
  enum Vote {
    kAny,
    kNone,
    kAll,
    kQuad,
    kLane0,
    kSureDoNotVote,
    kOnlySureVote,
    kAnyIsGood,
    kAllAreGood
  } vote = kAny;

  bool large(float sum) const {
    if (limit == kFinite) return !std::isfinite(sum);
    if (limit == kNotInf) return std::isinf(sum);
    return nan_is_too_large ? !(sum < number) : sum >= number;
  }
  bool again(const float (&sum)[2]) const {
    const bool me = of == kSum               ? large(sum[0] + sum[1])
                    : of == kEach            ? large(sum[0]) || large(sum[1])
                    : of == kBothRows        ? large(sum[0]) && large(sum[1])
                    : of == kMax             ? large(std::fmax(sum[0], sum[1]))
                    : of == kStdMax          ? large(std::max(sum[0], sum[1]))
                    : of == kStdMaxExchanged ? large(std::max(sum[1], sum[0]))
                                             : large(sum[of == kRow0 ? 0 : 1]);
    switch (vote) {
      case kAny:
        return warp_any(me);
      case kNone:
        return me;
      case kAll:
        return !warp_any(!me);
      case kQuad: {
        const float quad = shfl_xor(me ? 1.0f : 0.0f, 1) + (me ? 1.0f : 0.0f);
        return shfl_xor(quad, 2) + quad > 0;
      }
      case kLane0:
        return shfl(me, 0) != 0;
      case kSureDoNotVote:
        return me || warp_any(false);
      case kOnlySureVote:
        return me && warp_any(me);
      case kAnyIsGood:
        return warp_any(!me);
      case kAllAreGood:
        return !warp_any(me);
    }
    return false;
  }
};

using Wrong = exercise::Wrong<Way>;

static std::vector<Wrong> wrong_ways() {
  using W = Way;
  std::vector<Wrong> wrong = {
      {"nan-passes",
       "a NaN passes: no comparison with it is true, so ask for what is good, and negate: !(sum < "
       "limit)",
       {{.of = W::kEach, .nan_is_too_large = false}, {.nan_is_too_large = false}}},
      {"maximum-drops-nan",
       "the larger of the two sums was looked at: fmax, and std::max by the order of its "
       "arguments, drop a NaN. The sum of both keeps it",
       {{.of = W::kMax}, {.of = W::kStdMax}, {.of = W::kStdMaxExchanged}}},
      {"one-row-only",
       "one of the lane's two rows was looked at",
       {{.of = W::kRow0}, {.of = W::kRow1}}},
      {"both-rows-needed",
       "the tile is done again only if both rows of a lane are too large; one is enough",
       {{.of = W::kBothRows}}},
      {"limit-too-small",
       "sums pass only up to a small number, and most tiles of some ordinary data are done again; "
       "2^40 has to pass",
       {}},
      {"limit-too-large",
       "sums pass up to a number with which O overflows: 4 lanes, a V of 2^60 and 2^14 tiles are a "
       "factor of 2^76, so a sum that is finite is not enough",
       {{.limit = W::kFinite}, {.of = W::kEach, .limit = W::kNotInf}, {.limit = W::kNotInf}}},
      {"lane-by-itself",
       "each lane decides for itself, and the lanes of a warp have two answers; a product needs "
       "all 32: warp_any",
       {{.vote = W::kNone}}},
      {"four-lanes-by-themselves",
       "the four lanes of a row agree, and the warp does not; a product needs all 32: warp_any",
       {{.vote = W::kQuad}}},
      {"all-must-agree",
       "the tile is done again only if all lanes need it; any of them is enough",
       {{.vote = W::kAll}}},
      {"lane-0-decides", "lane 0's sums decide for the warp", {{.vote = W::kLane0}}},
      {"not-all-vote",
       "only some lanes call warp_any: behind || or && it is called only where the left side has "
       "not decided yet. All 32 vote",
       {{.vote = W::kSureDoNotVote}, {.vote = W::kOnlySureVote}}},
      {"answer-upside-down",
       "true is returned where the tile is good enough; it means again",
       {{.vote = W::kAnyIsGood}, {.vote = W::kAllAreGood}}},
  };
  // One limit between any two neighbours.
  const auto add = [&](const char* name, float number) {
    for (Wrong& one : wrong)
      if (one.name == std::string(name)) one.ways.push_back({.number = number});
  };
  add("limit-too-small", 0);
  add("limit-too-small", 1);
  add("limit-too-small", 0x1.8p38f);  // below the sum of two rows
  for (size_t i = 0; i + 1 < std::size(kGood); ++i)
    add("limit-too-small", kGood[i + 1].value / 1.5f);
  for (const Value& value : kTooLarge)
    if (value.value < INFINITE) add("limit-too-large", value.value * 3);
  return wrong;
}

struct Run {
  std::string lanes = std::string(32, ' ');  // what each has answered: again, or good enough
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
  const auto looks = exercise::looks(wrong_ways(), [&](const Way& way) {
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
