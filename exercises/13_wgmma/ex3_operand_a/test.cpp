#include <doctest/doctest.h>

#include <limits>
#include <operand_a.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using emulator::ex13::Place;
using fa::fp16;

// Both functions as people write them: right as it stands here, and each mistake is a change.
struct Way {
  enum Warp {
    kSixteen,
    kNoWarp,
    kThirtyTwo,
    kEightRows,
    kThread,
    kThreadOnly,
    kThreadOf64
  } warp = kSixteen;
  enum Half { kEightApart, kThirtyTwoApart, kNeighbours, kNoHalf, kHalfOfI } half = kEightApart;
  enum Eight { kEight, kSixteenKeys, kNoEight } eight = kEight;
  enum Lane {
    kTwoKeys,
    kOneKey,
    kFourApart,
    kFourKeys,
    kNoLane,
    kDownTheLanes,
    kExchanged,
    kExchangedTwo,
    kByRow,
    kByRowTwo
  } lane = kTwoKeys;
  enum Element { kOfI, kIHalf, kNoElement } element = kOfI;
  // Who has these places: both functions, or one of them.
  enum Of { kBoth, kPlaceOnly, kPackOnly } of = kBoth;

  enum Register { kRowsFirst, kKeysFirst, kUpperOnly, kFirstEight } reg = kRowsFirst;
  enum Fragment { kTwoAStep, kOneAStep, kFirstStep } fragment = kTwoAStep;
  enum Pair { kLowHigh, kHighLow, kLowLow, kSameScore, kTwoApart } pair = kLowHigh;
  enum Scale {
    kOfKey,
    kNone,
    kInStep,
    kOfPair,
    kRegister,
    kFirstEightScale,
    kOfRow,
    kStepAsFragment,
    kStepAndEight
  } scale = kOfKey;
  bool next_key = false;  // the second key of a register is the first one's + 1
  enum Round { kOnce, kBf16, kTwice } round = kOnce;
};

static Place place_by(const Way& way, int thread, int j, int i) {
  const int lane = thread % 32;
  const int upper = way.half == Way::kHalfOfI ? i % 2 : i / 2;
  const bool exchanged = way.lane == Way::kExchanged || way.lane == Way::kExchangedTwo;
  const int down = way.lane == Way::kDownTheLanes ? lane % 8 : exchanged ? lane % 4 : lane / 4;
  int row = thread / 32 * 16 + down;
  if (way.warp == Way::kNoWarp) row = down;
  if (way.warp == Way::kThirtyTwo) row = thread / 32 * 32 + down;
  if (way.warp == Way::kThread) row = thread / 32 * 16 + thread / 4;
  if (way.warp == Way::kThreadOnly) row = thread / 4;
  if (way.warp == Way::kThreadOf64) row = thread / 4 % 16;
  if (way.warp == Way::kEightRows) row = thread / 32 * 8 + down;
  row += way.half == Way::kNoHalf || way.lane == Way::kFourKeys ? 0
         : way.half == Way::kNeighbours                         ? upper
         : way.half == Way::kThirtyTwoApart                     ? 32 * upper
                                                                : 8 * upper;
  const int element = way.element == Way::kOfI ? i % 2 : way.element == Way::kIHalf ? i / 2 : 0;
  int key = way.eight == Way::kNoEight ? 0 : way.eight == Way::kSixteenKeys ? 16 * j : 8 * j;
  switch (way.lane) {
    case Way::kTwoKeys:
      return {row, key + lane % 4 * 2 + element};
    case Way::kOneKey:
      return {row, key + lane % 4 + element};
    case Way::kFourApart:
      return {row, key + lane % 4 + 4 * element};
    case Way::kNoLane:
      return {row, key + element};
    case Way::kDownTheLanes:
      return {row, key + lane / 8 * 2 + element};
    case Way::kFourKeys:
      return {row, key + lane % 4 * 4 + i};
    case Way::kExchanged:
    case Way::kByRow:
      return {row, key + lane / 4 + element};
    case Way::kExchangedTwo:
    case Way::kByRowTwo:
      return {row, key + lane / 4 * 2 + element};
  }
  return {};
}

static Place place_with(const Way& way, int thread, int j, int i) {
  return place_by(way.of == Way::kPackOnly ? Way{} : way, thread, j, i);
}

template <int KEYS>
static void pack_with(const Way& way, int thread, uint32_t (&P_rmem)[4],
                      const float (&S_rmem)[KEYS / 8][4], int step, const float* key_scale) {
  const Way place = way.of == Way::kPlaceOnly ? Way{} : way;
  for (int i = 0; i < 4; ++i) {
    const int half = way.reg == Way::kKeysFirst ? i / 2 : way.reg == Way::kUpperOnly ? 0 : i % 2;
    const int second = way.reg == Way::kKeysFirst ? i % 2 : way.reg == Way::kFirstEight ? 0 : i / 2;
    const int j = second + (way.fragment == Way::kTwoAStep   ? 2 * step
                            : way.fragment == Way::kOneAStep ? step
                                                             : 0);
    float p[2];
    for (int e = 0; e < 2; ++e) {
      const int element = way.pair == Way::kLowLow     ? half * 2
                          : way.pair == Way::kTwoApart ? half + e * 2
                                                       : half * 2 + e;
      const int right = way.next_key ? place_by(place, thread, j, half * 2).key + e
                                     : place_by(place, thread, j, element).key;
      int key = right;
      if (way.scale == Way::kInStep) key = right - 8 * j + 8 * second;
      if (way.scale == Way::kOfPair) key = place_by(place, thread, j, half * 2).key;
      if (way.scale == Way::kRegister)
        key = place_by(place, thread, j, i).key + (way.next_key ? e : 0);
      if (way.scale == Way::kStepAsFragment) key = right - 8 * j + 8 * step;
      if (way.scale == Way::kStepAndEight) key = right - 8 * j + 8 * (step + second);
      if (way.scale == Way::kFirstEightScale) key = right - 8 * second;
      if (way.scale == Way::kOfRow) key = place_by({}, thread, j, element).row;
      const float scale = way.scale == Way::kNone ? 1.0f : key_scale[key];
      float s = S_rmem[j][way.pair == Way::kSameScore ? half * 2 : element];
      if (way.round == Way::kTwice) s = fa::to_float(fa::from_float<fp16>(s));
      p[e] = s * scale;
    }
    if (way.pair == Way::kHighLow) std::swap(p[0], p[1]);
    P_rmem[i] = way.round == Way::kBf16 ? pack_bf16x2(p[0], p[1]) : pack<fp16>(p[0], p[1]);
  }
}

using Wrong = exercise::Wrong<Way>;

static std::vector<Wrong> wrong_ways() {
  using W = Way;
  // A wrong place may stand in both functions, or in one.
  const auto of_both = [](Way way) {
    std::vector<Way> ways(5, way);
    ways[1].of = W::kPlaceOnly, ways[2].of = W::kPackOnly;
    ways[3].next_key = ways[4].next_key = true, ways[4].of = W::kPackOnly;
    return ways;
  };
  // Without the last, in which the lanes overlap.
  const auto first_four = [](std::vector<Way> ways) {
    ways.pop_back();
    return ways;
  };
  // Only in the place: in packing alone it would be one scale for both.
  const auto of_place = [](Way way) {
    std::vector<Way> ways(3, way);
    ways[1].of = W::kPlaceOnly, ways[2].next_key = true;
    return ways;
  };
  const auto joined = [](std::vector<Way> a, const std::vector<Way>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  return {
      {"warp-forgotten",
       "the warp is missing in the row: each of the four has 16 rows",
       {{.warp = W::kNoWarp}}},
      {"warp-of-32-rows",
       "a warp was given as many rows as it has lanes; four lanes share a row, and a warp has 16",
       {{.warp = W::kThirtyTwo}}},
      {"thread-for-lane",
       "the thread's number stands where the lane's belongs, thread % 32",
       {{.warp = W::kThread}, {.warp = W::kThreadOnly}, {.warp = W::kThreadOf64}}},
      {"warp-of-eight-rows",
       "a warp was given eight rows, and other ones far below; it has 16 rows in one piece",
       {{.warp = W::kEightRows, .half = W::kThirtyTwoApart}}},
      {"eight-rows-forgotten",
       "elements 2 and 3 of an accumulator are 8 rows below 0 and 1",
       {{.half = W::kNoHalf}, {.half = W::kNeighbours}}},
      {"row-and-key-exchanged", "i % 2 is the neighbouring key, i / 2 the row 8 below",
       joined({{.half = W::kHalfOfI}}, joined(of_place({.half = W::kHalfOfI, .element = W::kIHalf}),
                                              of_place({.element = W::kIHalf})))},
      {"down-the-lanes", "neighbouring lanes were put below each other; four of them share a row",
       of_both({.lane = W::kDownTheLanes})},
      {"lanes-overlap",
       "the next lane's two keys were taken as one key further on, so that lanes share keys; they "
       "are two keys further on: lane % 4 * 2",
       of_both({.lane = W::kOneKey})},
      {"one-key-a-lane",
       "a lane was given one of each four keys, so two that are 4 apart; it has two neighbours",
       first_four(of_both({.lane = W::kFourApart}))},
      {"four-keys-a-lane",
       "the four floats were taken as neighbouring keys of one row; they are two keys of one row "
       "and two of the row 8 below",
       joined(of_both({.lane = W::kFourKeys}),
              of_both({.eight = W::kSixteenKeys, .lane = W::kFourKeys}))},
      {"lane-parts-exchanged", "lane / 4 is the row, lane % 4 the pair of keys",
       joined(joined(of_both({.lane = W::kExchanged}), of_both({.lane = W::kExchangedTwo})),
              joined(of_both({.lane = W::kByRow}), of_both({.lane = W::kByRowTwo})))},
      {"lane-forgotten",
       "the lane is missing in the key: each of the four that share a row has two others",
       of_both({.lane = W::kNoLane})},
      {"sixteen-keys-a-fragment", "the next j was taken as 16 keys further on; one fragment has 8",
       of_both({.eight = W::kSixteenKeys})},
      {"fragment-forgotten", "j is missing in the key: each fragment is 8 keys further on",
       of_both({.eight = W::kNoEight})},
      {"neighbour-forgotten",
       "elements 0 and 1 are neighbouring keys, as 2 and 3 are; i % 2 is missing in the key",
       of_place({.element = W::kNoElement})},
      {"registers-exchanged",
       "registers 1 and 2 are exchanged: first come the rows 8 below, then the second eight keys",
       {{.reg = W::kKeysFirst}}},
      {"upper-rows-only",
       "the rows 8 below are missing: registers 1 and 3 are elements 2 and 3",
       {{.reg = W::kUpperOnly}}},
      {"first-eight-keys-only",
       "the second eight keys are missing: registers 2 and 3 come from the next j",
       {{.reg = W::kFirstEight}}},
      {"one-fragment-a-step",
       "a step was taken as one fragment further on; 16 keys are two",
       {{.fragment = W::kOneAStep}}},
      {"step-forgotten", "each step packs the first 16 keys", {{.fragment = W::kFirstStep}}},
      {"pair-exchanged",
       "low and high are exchanged: the smaller key stands in the low 16 bits",
       {{.pair = W::kHighLow}}},
      {"one-element-twice",
       "the same element stands low and high; the other is its neighbour",
       {{.pair = W::kLowLow}, {.pair = W::kSameScore}}},
      {"rows-for-keys",
       "a register was packed of two rows of one key; it has two neighbouring keys of one row",
       {{.pair = W::kTwoApart}}},
      {"scale-of-the-first-step",
       "the scale is that of the first 16 keys; in the next step other keys have other scales",
       {{.scale = W::kInStep}}},
      {"scale-of-the-first-eight",
       "the second eight keys got the scales of the first",
       {{.scale = W::kFirstEightScale}}},
      {"one-scale-for-a-pair",
       "both elements of a register got one scale; they are two keys",
       {{.scale = W::kOfPair}, {.scale = W::kRegister}}},
      {"register-for-element",
       "the i of a[i] was taken for that of an accumulator; a register has two of them",
       {{.scale = W::kRegister, .next_key = true}}},
      {"scale-of-another-fragment",
       "the scale is that of fragment `step`; a step has two fragments",
       {{.scale = W::kStepAsFragment}, {.scale = W::kStepAndEight}}},
      {"scale-of-the-row",
       "the scale is that of the row's number; each key has one",
       {{.scale = W::kOfRow}}},
      {"scale-forgotten", "P is not scaled", {{.scale = W::kNone}}},
      {"packed-as-bf16",
       "P was packed as bf16, and is read as fp16: other bits for the same number",
       {{.round = W::kBf16}}},
      {"rounded-too-early",
       "S was rounded before it was scaled, so it was rounded twice",
       {{.round = W::kTwice}}},
  };
}

constexpr int ROWS = 64, THREADS = 128;

// ---- the places

using PlaceOf = std::function<Place(int thread, int j, int i)>;
constexpr int FRAGMENTS = 4;

static std::string shown_places(const PlaceOf& place) {
  std::string all;
  for (int thread = 0; thread < THREADS; ++thread)
    for (int at = 0; at < FRAGMENTS * 4; ++at) {
      const Place p = place(thread, at / 4, at % 4);
      all.append(reinterpret_cast<const char*>(&p), sizeof p);  // compared, never printed
    }
  return all;
}

TEST_CASE("the place of an accumulator") {
  const PlaceOf answer = [](int t, int j, int i) { return ex13::place_of(t, j, i); };
  const PlaceOf right = [](int t, int j, int i) { return place_with({}, t, j, i); };
  int wrong = 0;
  std::string message;
  const auto words = [](const Place& p) {
    return "row " + std::to_string(p.row) + ", key " + std::to_string(p.key);
  };
  for (int thread = 0; thread < THREADS; ++thread)
    for (int at = 0; at < FRAGMENTS * 4; ++at) {
      const Place got = answer(thread, at / 4, at % 4), is = right(thread, at / 4, at % 4);
      if (got.row == is.row && got.key == is.key) continue;
      if (wrong++ == 0)
        message = "thread " + std::to_string(thread) + ", S_rmem[" + std::to_string(at / 4) + "][" +
                  std::to_string(at % 4) + "]: expected " + words(is) + "; got " + words(got);
    }
  message += "\n" + std::to_string(wrong) + " of " + std::to_string(THREADS * FRAGMENTS * 4) +
             " places are wrong";
  const auto looks = exercise::looks(wrong_ways(), [&](const Way& way) {
    return shown_places([&](int t, int j, int i) { return place_with(way, t, j, i); });
  });
  exercise::check_shown(wrong == 0, message, shown_places(answer), looks);
}

// ---- operand A

struct Scores {
  int keys;
  std::vector<float> S, scale;  // [ROWS][keys], [keys]
};

// Wrong keys may lie behind the last one.
static std::vector<float> padded(std::vector<float> key_scale) {
  key_scale.resize(130, 1.0f);
  return key_scale;
}

// What a thread holds of S.
template <int KEYS>
static void hold(float (&S_rmem)[KEYS / 8][4], const Scores& scores, int thread) {
  for (int at = 0; at < KEYS / 2; ++at) {
    const Place p = place_with({}, thread, at / 4, at % 4);
    S_rmem[at / 4][at % 4] = scores.S[p.row * KEYS + p.key];
  }
}

// P as people pack it: [row][key]. What operand A's layout makes of the registers, without wgmma.
template <int KEYS>
static std::vector<float> weights_with(const Way& way, const Scores& scores) {
  std::vector<float> weights(ROWS * KEYS);
  const std::vector<float> key_scale = padded(scores.scale);
  for (int thread = 0; thread < THREADS; ++thread) {
    float S_rmem[KEYS / 8][4];
    hold<KEYS>(S_rmem, scores, thread);
    for (int step = 0; step < KEYS / 16; ++step) {
      uint32_t P_rmem[4];
      pack_with<KEYS>(way, thread, P_rmem, S_rmem, step, key_scale.data());
      for (int at = 0; at < 8; ++at) {
        const Place p = place_with({}, thread, at / 4, at % 4);
        const uint32_t pair = P_rmem[at / 4 * 2 + at % 4 / 2];
        const fp16 element{static_cast<uint16_t>(at % 2 ? pair >> 16 : pair)};
        weights[p.row * KEYS + step * 16 + p.key] = 0.0f + fa::to_float(element);
      }
    }
  }
  return weights;
}

// What wgmma takes P to be: [row][key], multiplied by the identity.
template <int KEYS, class Pack>
static std::vector<float> read_weights(const Scores& scores, Pack pack_step) {
  std::vector<float> weights(ROWS * KEYS);
  const std::vector<float> key_scale = padded(scores.scale);
  exercise::run_block(THREADS, 512, [&] {
    // B [16 keys][16 columns]: 8 x 8 pieces of 128 bytes.
    for (int at = thread_index(); at < 256; at += THREADS) {
      const int k = at / 16, n = at % 16;
      store_shared<fp16>(dynamic_smem() + n / 8 * 256 + k / 8 * 128 + n % 8 * 16 + k % 8 * 2,
                         fa::from_float<fp16>(k == n ? 1.0f : 0.0f));
    }
    fence_proxy_async();
    block_sync();
    float S_rmem[KEYS / 8][4];
    hold<KEYS>(S_rmem, scores, thread_index());
    for (int step = 0; step < KEYS / 16; ++step) {
      uint32_t P_rmem[4] = {};
      pack_step(P_rmem, S_rmem, step, key_scale.data());
      float O_rmem[2][4];
      wgmma_fence();
      wgmma<fp16>(O_rmem, P_rmem, wgmma_descriptor(dynamic_smem(), 128, 256, Swizzle::none), false);
      wgmma_commit();
      wgmma_wait<0>(O_rmem);
      for (int at = 0; at < 8; ++at) {
        const Place p = place_with({}, thread_index(), at / 4, at % 4);
        weights[p.row * KEYS + step * 16 + p.key] = O_rmem[at / 4][at % 4];
      }
    }
  });
  return weights;
}

static std::string shown_weights(const std::vector<float>& weights) {
  std::string all;
  for (float x : weights) {
    if (x != x) x = std::numeric_limits<float>::quiet_NaN();
    all.append(reinterpret_cast<const char*>(&x), sizeof x);  // compared, never printed
  }
  return all;
}

template <int KEYS>
static void check_weights(const std::string& what, const Scores& scores) {
  const auto got =
      read_weights<KEYS>(scores, [](auto&&... args) { ex13::pack_weights<KEYS>(args...); });
  // The layout by which the mistakes are computed is wgmma's.
  CHECK(weights_with<KEYS>({}, scores) == read_weights<KEYS>(scores, [](auto&&... args) {
          pack_with<KEYS>({}, thread_index(), args...);
        }));
  int wrong = 0;
  std::string message = what + "\n";
  for (int at = 0; at < ROWS * KEYS; ++at) {
    const float p = scores.S[at] * scores.scale[at % KEYS];
    const float right = fa::to_float(fa::from_float<fp16>(p));
    if (got[at] == right) continue;
    if (wrong++ == 0)
      message += "P, row " + std::to_string(at / KEYS) + ", key " + std::to_string(at % KEYS) +
                 ": expected " + exercise::text(right) + ", got " + exercise::text(got[at]);
  }
  message +=
      "\n" + std::to_string(wrong) + " of " + std::to_string(ROWS * KEYS) + " weights are wrong";
  const auto looks = exercise::looks(
      wrong_ways(), [&](const Way& way) { return shown_weights(weights_with<KEYS>(way, scores)); });
  exercise::check_shown(wrong == 0, message, shown_weights(got), looks);
}

TEST_CASE("16 keys, not scaled") {
  Scores scores{16, {}, std::vector<float>(16, 1.0f)};
  for (int at = 0; at < ROWS * 16; ++at) scores.S.push_back(static_cast<float>(at));
  check_weights<16>("S[row][key] is 16 * row + key, all scales are 1", scores);
}
TEST_CASE("16 keys, scaled") {
  Scores scores{16, std::vector<float>(ROWS * 16, 1.0f), {}};
  for (int key = 0; key < 16; ++key) scores.scale.push_back(static_cast<float>(key + 1));
  check_weights<16>("all of S is 1, key_scale[key] is key + 1", scores);
}
TEST_CASE("32 keys") {
  check_weights<32>("S and scales at random",
                    {32, exercise::random_numbers(ROWS * 32, 1), exercise::random_numbers(32, 2)});
}
