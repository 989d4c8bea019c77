#include <doctest/doctest.h>

#include <limits>
#include <operand_a.hpp>

#include "exercises/support/warp.hpp"

using exercise::Changes;
using namespace emulator;
using emulator::ex13::Place;
using fa::fp16;

// The right place and the right packing, and each mistake as a change to them. A wrong place may be
// in both functions or in one of them: "place-only", "pack-only". "next-key": the second key of a
// register is computed as the first key + 1.
static Place place_by(const Changes& is, int thread, int j, int i) {
  const int lane = thread % 32;
  const int upper = is("half-of-i") ? i % 2 : i / 2;
  const bool exchanged = is("exchanged") || is("exchanged-two");
  const int down = is("down-the-lanes") ? lane % 8 : exchanged ? lane % 4 : lane / 4;
  int row = thread / 32 * 16 + down;
  if (is("warp-forgotten")) row = down;
  if (is("warp-of-32-rows")) row = thread / 32 * 32 + down;
  if (is("thread")) row = thread / 32 * 16 + thread / 4;
  if (is("thread-only")) row = thread / 4;
  if (is("thread-of-64")) row = thread / 4 % 16;
  if (is("eight-rows")) row = thread / 32 * 8 + down;
  row += is("no-half") || is("four-keys") ? 0
         : is("neighbours")               ? upper
         : is("thirty-two-apart")         ? 32 * upper
                                          : 8 * upper;
  const int element = is("i-half") ? i / 2 : is("no-element") ? 0 : i % 2;
  const int key = is("no-eight") ? 0 : is("sixteen-keys") ? 16 * j : 8 * j;
  if (is("four-keys")) return {row, key + lane % 4 * 4 + i};
  return {row, key + (is("one-key")                           ? lane % 4 + element
                      : is("four-apart")                      ? lane % 4 + 4 * element
                      : is("no-lane")                         ? element
                      : is("down-the-lanes")                  ? lane / 8 * 2 + element
                      : is.any("exchanged", "by-row")         ? lane / 4 + element
                      : is.any("exchanged-two", "by-row-two") ? lane / 4 * 2 + element
                                                              : lane % 4 * 2 + element)};
}

static const Changes NONE;

static Place place_with(const Changes& is, int thread, int j, int i) {
  return place_by(is("pack-only") ? NONE : is, thread, j, i);
}

template <int KEYS>
static void pack_with(const Changes& is, int thread, uint32_t (&P_rmem)[4],
                      const float (&S_rmem)[KEYS / 8][4], int step, const float* key_scale) {
  const Changes& place = is("place-only") ? NONE : is;
  for (int i = 0; i < 4; ++i) {
    const int half = is("registers-exchanged") ? i / 2 : is("upper-rows-only") ? 0 : i % 2;
    const int second = is("registers-exchanged") ? i % 2 : is("first-eight-keys-only") ? 0 : i / 2;
    const int j = second + (is("one-fragment-a-step") ? step : is("step-forgotten") ? 0 : 2 * step);
    float p[2];
    for (int e = 0; e < 2; ++e) {
      const int element = is("low-low")         ? half * 2
                          : is("rows-for-keys") ? half + e * 2
                                                : half * 2 + e;
      const int right = is("next-key") ? place_by(place, thread, j, half * 2).key + e
                                       : place_by(place, thread, j, element).key;
      int key = right;
      if (is("scale-of-the-first-step")) key = right - 8 * j + 8 * second;
      if (is("of-pair")) key = place_by(place, thread, j, half * 2).key;
      if (is("register")) key = place_by(place, thread, j, i).key + (is("next-key") ? e : 0);
      if (is("step-as-fragment")) key = right - 8 * j + 8 * step;
      if (is("step-and-eight")) key = right - 8 * j + 8 * (step + second);
      if (is("scale-of-the-first-eight")) key = right - 8 * second;
      if (is("scale-of-the-row")) key = place_by(NONE, thread, j, element).row;
      const float scale = is("scale-forgotten") ? 1.0f : key_scale[key];
      float s = S_rmem[j][is("same-score") ? half * 2 : element];
      if (is("rounded-too-early")) s = fa::to_float(fa::from_float<fp16>(s));
      p[e] = s * scale;
    }
    if (is("pair-exchanged")) std::swap(p[0], p[1]);
    P_rmem[i] = is("packed-as-bf16") ? pack_bf16x2(p[0], p[1]) : pack<fp16>(p[0], p[1]);
  }
}

static const exercise::Table MISTAKES(R"(
$of-both = {,place-only,pack-only,next-key,pack-only next-key}
$of-place = {,place-only,next-key}
warp-forgotten
  the warp is missing in the row: each of the four has 16 rows
warp-of-32-rows
  a warp was given as many rows as it has lanes. Four lanes share a row, and a warp has 16
thread-for-lane: thread; thread-only; thread-of-64
  the thread's number was used in place of the lane's, thread % 32
warp-of-eight-rows: eight-rows thirty-two-apart
  a warp was given eight rows, and other ones far below. It has 16 rows in one piece
eight-rows-forgotten: no-half; neighbours
  elements 2 and 3 of an accumulator are 8 rows below 0 and 1
row-and-key-exchanged: half-of-i; half-of-i i-half $of-place; i-half $of-place
  i % 2 is the neighbouring key, i / 2 the row 8 below
down-the-lanes: down-the-lanes $of-both
  neighbouring lanes were put below each other. Four of them share a row
lanes-overlap: one-key $of-both
  the next lane's two keys were taken as one key further on, so that lanes share keys. They are two
  keys further on: lane % 4 * 2
one-key-a-lane: four-apart {,place-only,pack-only,next-key}
  a lane was given one of each four keys, so two that are 4 apart. It has two neighbours
four-keys-a-lane: {,sixteen-keys }four-keys $of-both
  the four floats were taken as neighbouring keys of one row. They are two keys of one row and two
  of the row 8 below
lane-parts-exchanged: {exchanged,exchanged-two,by-row,by-row-two} $of-both
  lane / 4 is the row, lane % 4 the pair of keys
lane-forgotten: no-lane $of-both
  the lane is missing in the key: each of the four that share a row has two others
sixteen-keys-a-fragment: sixteen-keys $of-both
  the next j was taken as 16 keys further on. One fragment has 8
fragment-forgotten: no-eight $of-both
  j is missing in the key: each fragment is 8 keys further on
neighbour-forgotten: no-element $of-place
  elements 0 and 1 are neighbouring keys, as 2 and 3 are. i % 2 is missing in the key
registers-exchanged
  registers 1 and 2 are exchanged: first come the rows 8 below, then the second eight keys
upper-rows-only
  the rows 8 below are missing: registers 1 and 3 are elements 2 and 3
first-eight-keys-only
  the second eight keys are missing: registers 2 and 3 come from the next j
one-fragment-a-step
  a step was taken as one fragment further on. 16 keys are two
step-forgotten
  each step packs the first 16 keys
pair-exchanged
  low and high are exchanged: the smaller key is in the low 16 bits
one-element-twice: low-low; same-score
  the same element is in the low and the high half. The other half holds its neighbour
rows-for-keys
  a register was packed of two rows of one key. It has two neighbouring keys of one row
scale-of-the-first-step
  the scale is that of the first 16 keys. In the next step other keys have other scales
scale-of-the-first-eight
  the second eight keys got the scales of the first
one-scale-for-a-pair: of-pair; register
  both elements of a register got one scale. They are two keys
register-for-element: register next-key
  the i of a[i] was taken for that of an accumulator. A register has two of them
scale-of-another-fragment: step-as-fragment; step-and-eight
  the scale is that of fragment `step`. A step has two fragments
scale-of-the-row
  the scale is that of the row's number. Each key has one
scale-forgotten
  P is not scaled
packed-as-bf16
  P was packed as bf16, and is read as fp16: other bits for the same number
rounded-too-early
  S was rounded before it was scaled, so it was rounded twice
)");

constexpr int ROWS = 64, THREADS = 128;

// ---- the places

using PlaceOf = std::function<Place(int thread, int j, int i)>;
constexpr int FRAGMENTS = 4;

static std::string shown_places(const PlaceOf& place) {
  std::vector<Place> all;
  for (int thread = 0; thread < THREADS; ++thread)
    for (int at = 0; at < FRAGMENTS * 4; ++at) all.push_back(place(thread, at / 4, at % 4));
  return exercise::bytes(all);
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
  const auto looks = exercise::looks(MISTAKES, [&](const Changes& is) {
    return shown_places([&](int t, int j, int i) { return place_with(is, t, j, i); });
  });
  exercise::check_shown(wrong == 0, message, shown_places(answer), looks);
}

// ---- operand A

struct Scores {
  int keys;
  std::vector<float> S, scale;  // [ROWS][keys], [keys]
};

// Wrong keys may be past the last one.
static std::vector<float> padded(std::vector<float> key_scale) {
  key_scale.resize(130, 1.0f);
  return key_scale;
}

// The elements of S that a thread holds.
template <int KEYS>
static void hold(float (&S_rmem)[KEYS / 8][4], const Scores& scores, int thread) {
  for (int at = 0; at < KEYS / 2; ++at) {
    const Place p = place_with({}, thread, at / 4, at % 4);
    S_rmem[at / 4][at % 4] = scores.S[p.row * KEYS + p.key];
  }
}

// P as the changes pack it, [row][key], computed from the layout of operand A without wgmma.
template <int KEYS>
static std::vector<float> weights_with(const Changes& is, const Scores& scores) {
  std::vector<float> weights(ROWS * KEYS);
  const std::vector<float> key_scale = padded(scores.scale);
  for (int thread = 0; thread < THREADS; ++thread) {
    float S_rmem[KEYS / 8][4];
    hold<KEYS>(S_rmem, scores, thread);
    for (int step = 0; step < KEYS / 16; ++step) {
      uint32_t P_rmem[4];
      pack_with<KEYS>(is, thread, P_rmem, S_rmem, step, key_scale.data());
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

// P as wgmma reads it, [row][key], which is P multiplied by the identity.
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

static std::string shown_weights(std::vector<float> weights) {
  for (float& x : weights)
    if (x != x) x = std::numeric_limits<float>::quiet_NaN();
  return exercise::bytes(weights);
}

template <int KEYS>
static void check_weights(const std::string& what, const Scores& scores) {
  const auto got =
      read_weights<KEYS>(scores, [](auto&&... args) { ex13::pack_weights<KEYS>(args...); });
  // The mistakes are computed with the layout that wgmma uses.
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
      MISTAKES, [&](const Changes& is) { return shown_weights(weights_with<KEYS>(is, scores)); });
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
