#include <doctest/doctest.h>

#include <algorithm>
#include <attention_bytes.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

static uint64_t at_most(int a, uint64_t b) { return std::min(static_cast<uint64_t>(a), b); }

// The functions as people write them: right as they stand here, each mistake is a change to them.
struct Way {
  enum Heads { kAll, kBatchForgotten, kHeadsForgotten, kBothForgotten } of_heads = kAll;
  enum Layers { kEach, kForgotten, kForgottenInPlain, kForgottenInTiled } of_layers = kEach;
  enum Matrices {
    kOneDsAThread,
    kNoDs,
    kDsEverywhere,
    kDsEveryLayer,
    kOneDs,
    kDsOfAllHeads
  } matrices = kOneDsAThread;
  enum Length { kSquared, kOnce, kTriangle, kTwice } length_form = kSquared;
  enum Rows { kLseAndD, kOneNumber, kThreeNumbers, kNoRows, kRowsOncePerModel } rows = kLseAndD;
  enum Tiles {
    kTwo,
    kOneTile,
    kNoTiles,
    kTilesOncePerModel,
    kOneThread,
    kNotClipped,
    kSides,
    kByDim,
    kEachHead
  } tiles = kTwo;
  bool idle_threads = false, threads_by_heads = false, kinds_exchanged = false;
  enum Model { kNotCounted, kOOfTiled, kOOfBoth, kQkvoOfBoth } model = kNotCounted;
  uint64_t number_bytes = 4;
  enum Arithmetic { k64, kProductIn32, kSquareIn32, kAllIn32, kFp32 } arithmetic = k64;
  enum Search {
    kFits,
    kStrictly,
    kFirstThatDoesNot,
    kFirstOrZero,
    kOneLess,
    kPowersOfTwo,
    kAtLeastOne,
    kMinusOne,
    kLinear,
    kNeverEnds,
    kTooHigh,
    kMiddleOverflows,
    kPowersFromOne,
    kClipped,
    kBelowClip,
    kProportional,
    kRoot,
    kOneBack,
    kFromBudget
  } search = kFits;
  int clip = 0, start = 1;

  int64_t attention_bytes(Attention attention, const Shape& s) const {
    const auto wrapped = [](uint64_t x) {
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(x)));
    };
    const bool plain = (attention == Attention::PLAIN) != kinds_exchanged;
    const bool one_layer =
        of_layers == kForgotten || of_layers == (plain ? kForgottenInPlain : kForgottenInTiled);
    const uint64_t T = s.length, dim = s.dim, L = one_layer ? 1 : s.layers;
    const uint64_t heads =
        static_cast<uint64_t>(of_heads == kBatchForgotten || of_heads == kBothForgotten ? 1
                                                                                        : s.batch) *
        (of_heads == kHeadsForgotten || of_heads == kBothForgotten ? 1 : s.heads);
    const uint64_t threads = idle_threads       ? s.threads
                             : threads_by_heads ? at_most(s.threads, s.heads)
                                                : at_most(s.threads, heads);
    const uint64_t block = tiles == kNotClipped ? s.block : at_most(s.block, T);
    const uint64_t of_plain = matrices == kNoDs           ? L * heads
                              : matrices == kDsEverywhere ? 2 * L * heads
                              : matrices == kDsEveryLayer ? L * (heads + threads)
                              : matrices == kOneDs        ? L * heads + 1
                              : matrices == kDsOfAllHeads ? L * heads + heads
                                                          : L * heads + threads;
    uint64_t square = length_form == kOnce       ? T
                      : length_form == kTriangle ? T * (T + 1) / 2
                      : length_form == kTwice    ? 2 * T
                                                 : T * T;
    if (arithmetic == kSquareIn32) square = wrapped(square);
    const uint64_t a_row = rows == kOneNumber      ? 1
                           : rows == kThreeNumbers ? 3
                           : rows == kNoRows       ? 0
                                                   : 2;
    const uint64_t of_rows = a_row * heads * T * (rows == kRowsOncePerModel ? 1 : L);
    const uint64_t a_tile = tiles == kSides ? block : tiles == kByDim ? block * dim : block * block;
    const uint64_t of_tiles = tiles == kNoTiles
                                  ? 0
                                  : (tiles == kOneTile ? 1 : 2) *
                                        (tiles == kOneThread  ? 1
                                         : tiles == kEachHead ? heads
                                                              : threads) *
                                        a_tile * (tiles == kTilesOncePerModel ? 1 : L);
    uint64_t numbers = plain ? of_plain * square : of_rows + of_tiles;
    if (model == kOOfBoth || (model == kOOfTiled && !plain)) numbers += L * heads * T * dim;
    if (model == kQkvoOfBoth) numbers += 4 * L * heads * T * dim;
    if (arithmetic == kProductIn32 || arithmetic == kAllIn32) numbers = wrapped(numbers);
    uint64_t bytes = numbers * number_bytes;
    if (arithmetic == kAllIn32) bytes = wrapped(bytes);
    if (arithmetic == kFp32) return static_cast<int64_t>(static_cast<float>(bytes));
    return static_cast<int64_t>(bytes);
  }

  int longest_context(const std::function<int64_t(int)>& bytes, int64_t budget) const {
    if (search == kProportional) return static_cast<int>(budget / bytes(1));
    if (search == kRoot) {
      const double root = std::sqrt(static_cast<double>(budget) / static_cast<double>(bytes(1)));
      return static_cast<int>(root);
    }
    const auto fits = [&](int length) {
      return search == kStrictly ? bytes(length) < budget : bytes(length) <= budget;
    };
    int longest = 0, too_long = start;
    if (search == kMiddleOverflows) bytes(-(1 << 30));
    if (search == kLinear) {
      while (fits(longest + 1)) ++longest;
      return longest;
    }
    if (search == kFromBudget) {
      too_long = static_cast<int>(
          std::min<int64_t>(std::max<int64_t>(budget, 1), std::numeric_limits<int>::max()));
    }
    while (search != kTooHigh && search != kFromBudget && fits(too_long))
      longest = too_long, too_long *= 2;
    if (search == kOneBack) {
      while (too_long > 0 && !fits(too_long)) --too_long;
      return too_long;
    }
    const bool powers = search == kPowersOfTwo || search == kPowersFromOne;
    while (!powers && too_long - longest > (search == kNeverEnds ? 0 : 1)) {
      const int middle = longest + (too_long - longest) / 2;
      (fits(middle) ? longest : too_long) = middle;
    }
    if (search == kClipped) return std::min(longest, clip);
    if (search == kBelowClip) return std::min(longest, clip - 1);
    if (longest == 0) {
      return search == kAtLeastOne || search == kPowersFromOne || search == kFirstThatDoesNot ? 1
             : search == kMinusOne                                                            ? -1
                                                                                              : 0;
    }
    return longest + (search == kFirstThatDoesNot || search == kFirstOrZero) - (search == kOneLess);
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  int64_t attention_bytes(Attention attention, const Shape& shape) const {
    return ::attention_bytes(attention, shape);
  }
  int longest_context(const std::function<int64_t(int)>& bytes, int64_t budget) const {
    return ::longest_context(bytes, budget);
  }
};

using Wrong = exercise::Wrong<Way>;

static const std::vector<Wrong>& wrong_ways() {
  using W = Way;
  static const std::vector<Wrong> wrong = {
      {"batch-forgotten",
       "the heads of one sequence were counted; every sequence of the batch has its own",
       {{.of_heads = W::kBatchForgotten}}},
      {"heads-forgotten",
       "one head a sequence was counted; each head has its own P, or LSE and D",
       {{.of_heads = W::kHeadsForgotten}, {.of_heads = W::kBothForgotten}}},
      {"layers-forgotten",
       "one layer was counted; all of them keep theirs until the backward pass comes to them",
       {{.of_layers = W::kForgotten},
        {.of_layers = W::kForgottenInPlain},
        {.of_layers = W::kForgottenInTiled}}},
      {"ds-forgotten",
       "P alone was counted; in the backward pass each thread has a dS of the same size",
       {{.matrices = W::kNoDs}}},
      {"ds-for-every-p",
       "a dS was counted for each P; only as many are there at once as threads work",
       {{.matrices = W::kDsEverywhere}}},
      {"ds-in-every-layer",
       "each layer was given its own dS; a layer gives them back before the next one's backward "
       "pass",
       {{.matrices = W::kDsEveryLayer}}},
      {"one-ds-for-all-threads",
       "one dS was counted; each thread works at another head and needs its own",
       {{.matrices = W::kOneDs}}},
      {"ds-for-every-head",
       "a dS was counted for each head of a layer; only as many are there at once as threads work",
       {{.matrices = W::kDsOfAllHeads}}},
      {"length-once",
       "P was counted with T numbers; each of T queries has a weight for each of T keys: T * T",
       {{.length_form = W::kOnce}, {.length_form = W::kTwice}}},
      {"half-a-matrix",
       "only the keys that a query sees were counted; the program stores the hidden ones, too, as "
       "zeros: T * T",
       {{.length_form = W::kTriangle}}},
      {"one-number-a-row",
       "one number a row was counted for tiled attention; there are two: LSE and D",
       {{.rows = W::kOneNumber}}},
      {"three-numbers-a-row",
       "three numbers a row were counted for tiled attention; m and l are kept as one, LSE, and D "
       "is the second",
       {{.rows = W::kThreeNumbers}}},
      {"rows-forgotten",
       "only tiles were counted for tiled attention; LSE and D of each row are kept, too",
       {{.rows = W::kNoRows}}},
      {"rows-of-one-layer",
       "LSE and D of one layer were counted; each layer keeps its own",
       {{.rows = W::kRowsOncePerModel}}},
      {"one-tile-a-thread",
       "one tile a thread was counted; there are two: P and dS",
       {{.tiles = W::kOneTile}}},
      {"tiles-forgotten",
       "only LSE and D were counted for tiled attention; each thread has two tiles, too",
       {{.tiles = W::kNoTiles}}},
      {"tiles-of-one-layer",
       "the tiles were counted once for the model; here each layer allocates its own",
       {{.tiles = W::kTilesOncePerModel}}},
      {"tiles-of-one-thread",
       "the tiles of one thread were counted; each thread has its own",
       {{.tiles = W::kOneThread}}},
      {"tiles-of-each-head",
       "two tiles were counted for each head; a thread has two, and works at one head after the "
       "other",
       {{.tiles = W::kEachHead}}},
      {"tile-larger-than-the-matrix",
       "tiles were counted as [block, block] although T is less than a block; they are [T, T] then",
       {{.tiles = W::kNotClipped}}},
      {"side-of-a-tile",
       "a tile was counted with `block` numbers; it has block * block",
       {{.tiles = W::kSides}}},
      {"tile-of-rows-of-q",
       "a tile was counted as [block, dim], like one of Q; tiles of P and dS are [block, block]",
       {{.tiles = W::kByDim}}},
      {"idle-threads-counted",
       "all threads were counted; a thread works at a head, and there are fewer: min(threads, B * "
       "H)",
       {{.idle_threads = true}}},
      {"threads-of-one-sequence",
       "threads were limited to the heads of one sequence; they work at all sequences of the "
       "batch: min(threads, B * H)",
       {{.threads_by_heads = true}}},
      {"kinds-exchanged",
       "plain was counted as tiled, and tiled as plain",
       {{.kinds_exchanged = true}}},
      {"q-k-v-o-counted",
       "tensors of the model were counted, O or Q, K and V as well; both kinds of attention need "
       "them, and they are not attention's own",
       {{.model = W::kOOfTiled}, {.model = W::kOOfBoth}, {.model = W::kQkvoOfBoth}}},
      {"numbers-for-bytes",
       "numbers were counted; a number of fp32 has 4 bytes",
       {{.number_bytes = 1}}},
      {"two-bytes-a-number",
       "2 bytes a number were counted, as for bf16; the program computes in fp32: 4",
       {{.number_bytes = 2}}},
      {"eight-bytes-a-number",
       "8 bytes a number were counted, as for double; the program computes in fp32: 4",
       {{.number_bytes = 8}}},
      {"thirty-two-bits",
       "a product was computed in 32 bits and is wrong from 2^31 on: begin it with an int64_t",
       {{.arithmetic = W::kProductIn32},
        {.arithmetic = W::kSquareIn32},
        {.arithmetic = W::kAllIn32}}},
      {"rounded-to-fp32",
       "the bytes were computed in fp32, which is exact up to 2^24 only: int64_t",
       {{.arithmetic = W::kFp32}}},
      {"exact-fit-refused",
       "a context that needs exactly the budget was refused; it fits: <=",
       {{.search = W::kStrictly}}},
      {"first-that-does-not-fit",
       "the answer is one too long: it is the first context that does not fit",
       {{.search = W::kFirstThatDoesNot}, {.search = W::kFirstOrZero}}},
      {"one-too-short",
       "the answer is one too short, also where the context does not fill the budget",
       {{.search = W::kOneLess}}},
      {"powers-of-two-only",
       "the answer is the largest power of 2 that fits; up to the next one longer contexts may "
       "fit: bisect between the two",
       {{.search = W::kPowersOfTwo}, {.search = W::kPowersFromOne}}},
      {"one-token-always-fits",
       "the answer is 1 although not even that fits: 0",
       {{.search = W::kAtLeastOne}}},
      {"minus-one-for-none", "the answer is -1 where nothing fits; 0", {{.search = W::kMinusOne}}},
      {"one-after-the-other",
       "contexts were tried one after the other, and millions may fit: double, then bisect",
       {{.search = W::kLinear}, {.search = W::kOneBack}}},
      {"search-never-ends",
       "the search asks about the same contexts again and again: in each round one of its ends has "
       "to move, and it is over when they are neighbours",
       {{.search = W::kNeverEnds}}},
      {"search-begins-too-high",
       "a context was asked about whose bytes 64 bits do not hold; a number that has wrapped round "
       "may seem to fit: begin with 1 and double",
       {{.search = W::kTooHigh, .start = 1 << 30},
        {.search = W::kTooHigh, .start = std::numeric_limits<int>::max()},
        {.search = W::kTooHigh, .start = 1000000000},
        {.search = W::kTooHigh, .start = 2000000000},
        {.search = W::kFromBudget}}},
      {"middle-overflows",
       "a context of less than 0 tokens was asked about: the sum of two large ints is negative, "
       "and so is half of it; begin with 1 and double",
       {{.search = W::kMiddleOverflows}}},
      {"search-ends-too-low",
       "no context above a fixed limit was found; with a large budget longer ones fit: double "
       "until one does not",
       {{.search = W::kClipped, .clip = 1 << 16},
        {.search = W::kBelowClip, .clip = 1 << 16},
        {.search = W::kClipped, .clip = 1 << 17},
        {.search = W::kBelowClip, .clip = 1 << 17},
        {.search = W::kClipped, .clip = 1 << 20},
        {.search = W::kBelowClip, .clip = 1 << 20},
        {.search = W::kClipped, .clip = 100000},
        {.search = W::kBelowClip, .clip = 100000},
        {.search = W::kClipped, .clip = 1000000},
        {.search = W::kBelowClip, .clip = 1000000}}},
      {"taken-as-proportional",
       "the budget was divided by the bytes of one token; they grow with the square of the "
       "context, or with something that is there from the beginning: search",
       {{.search = W::kProportional}}},
      {"taken-as-square",
       "the bytes were taken to be T * T times those of one token; tiled attention's are not: "
       "search",
       {{.search = W::kRoot}}},
  };
  return wrong;
}

static std::string words(const Shape& s) {
  return "B " + std::to_string(s.batch) + ", H " + std::to_string(s.heads) + ", dim " +
         std::to_string(s.dim) + ", " + std::to_string(s.layers) + " layers, " +
         std::to_string(s.threads) + " threads, block " + std::to_string(s.block);
}

static void check_bytes(const Shape& shape) {
  for (const Attention attention : {Attention::PLAIN, Attention::TILED}) {
    const auto bytes = [&](const auto& way) {
      return Numbers{static_cast<double>(way.attention_bytes(attention, shape))};
    };
    const auto mistakes = exercise::mistakes(wrong_ways(), bytes);
    const char* const kind = attention == Attention::PLAIN ? "plain" : "tiled";
    exercise::check_output(
        {words(shape) + ", T = " + std::to_string(shape.length) + ", bytes of " + kind, 0, 0},
        bytes(Answer{}), bytes(Way{}), mistakes);
  }
}

// What a search finds, or why it was stopped.
constexpr size_t MOST_QUESTIONS = 10000;

template <class Any>
static std::string found(const Any& way, Attention attention, Shape shape, int64_t budget) {
  struct Stopped {
    const char* why;
  };
  std::vector<int> asked;
  const std::function<int64_t(int)> bytes = [&](int length) {
    asked.push_back(length);
    if (length < 0) throw Stopped{"asked about a context of less than 0 tokens"};
    if (asked.size() == MOST_QUESTIONS) {
      std::sort(asked.begin(), asked.end());
      const auto different = std::unique(asked.begin(), asked.end()) - asked.begin();
      throw Stopped{different > static_cast<std::ptrdiff_t>(MOST_QUESTIONS / 2)
                        ? "asked 10000 questions, and still about others"
                        : "asked 10000 questions, and about the same again and again"};
    }
    shape.length = length;
    const double matrices = double(shape.batch) * shape.heads * shape.layers + shape.threads;
    if (attention == Attention::PLAIN && 4 * matrices * length * length > 0x1p62)
      throw Stopped{"asked about a context whose bytes 64 bits do not hold"};
    return Way{}.attention_bytes(attention, shape);
  };
  try {
    return std::to_string(way.longest_context(bytes, budget));
  } catch (const Stopped& stopped) {
    return stopped.why;
  }
}

static void check_longest(Attention attention, const Shape& shape, int64_t budget) {
  const auto looks = exercise::looks(
      wrong_ways(), [&](const Way& way) { return found(way, attention, shape, budget); });
  const std::string got = found(Answer{}, attention, shape, budget);
  const std::string expected = found(Way{}, attention, shape, budget);
  exercise::check_shown(
      got == expected,
      words(shape) + ", longest of " + (attention == Attention::PLAIN ? "plain" : "tiled") +
          " in " + std::to_string(budget) + " bytes: expected " + expected + ", got " + got,
      got, looks);
}

// batch, heads, length, dim, layers, threads, block
TEST_CASE("one token") { check_bytes({1, 1, 1, 1, 1, 1, 1}); }
TEST_CASE("one head, one layer, one thread") {
  check_bytes({1, 1, 64, 16, 1, 1, 16});
  check_bytes({1, 1, 100, 8, 1, 1, 32});
}
TEST_CASE("the README's shapes") {
  check_bytes({8, 4, 64, 16, 2, 2, 16});
  check_bytes({8, 4, 128, 16, 2, 2, 16});
}
TEST_CASE("more threads than heads") { check_bytes({1, 2, 64, 16, 3, 8, 16}); }
TEST_CASE("a context shorter than a block") { check_bytes({2, 3, 10, 8, 2, 4, 64}); }
TEST_CASE("a layer, and many") {
  check_bytes({4, 6, 256, 64, 1, 4, 32});
  check_bytes({4, 6, 256, 64, 6, 4, 32});
}
TEST_CASE("from 2^31 bytes on") {
  check_bytes({1, 2, 16384, 16, 1, 2, 64});
  check_bytes({12, 12, 4096, 64, 12, 16, 64});
  check_bytes({8, 16, 131072, 64, 4, 8, 64});
  check_bytes({64, 32, 65537, 128, 48, 32, 128});
}

TEST_CASE("the longest context, the README's") {
  check_longest(Attention::PLAIN, {8, 4, 0, 16, 2, 2, 16}, int64_t{1} << 30);
  check_longest(Attention::TILED, {8, 4, 0, 16, 2, 2, 16}, int64_t{1} << 30);
}
TEST_CASE("the longest context, filled to the last byte, and one byte less") {
  for (const Attention attention : {Attention::PLAIN, Attention::TILED})
    for (const Shape& shape : {Shape{2, 4, 300, 32, 3, 4, 32}, Shape{1, 1, 64, 16, 1, 1, 16}}) {
      const int64_t bytes = Way{}.attention_bytes(attention, shape);
      check_longest(attention, shape, bytes);
      check_longest(attention, shape, bytes - 1);
    }
}
TEST_CASE("the longest context, shorter than a block") {
  check_longest(Attention::TILED, {1, 2, 0, 16, 2, 2, 256}, 100000);
  check_longest(Attention::PLAIN, {1, 2, 0, 16, 2, 2, 256}, 100000);
}
TEST_CASE("the longest context, hardly any budget") {
  for (const Attention attention : {Attention::PLAIN, Attention::TILED})
    for (const int64_t budget : {0, 3, 31, 32, 50})
      check_longest(attention, {1, 1, 0, 8, 2, 2, 16}, budget);
}
TEST_CASE("the longest context, 16 GB and 1 TB") {
  for (const Attention attention : {Attention::PLAIN, Attention::TILED})
    for (const int64_t budget : {int64_t{16} << 30, int64_t{1} << 40})
      check_longest(attention, {12, 12, 0, 64, 12, 8, 64}, budget);
}

// What this test takes for right: one allocation after the other, as the program makes them.
TEST_CASE("the allocations themselves") {
  const Shape s{2, 3, 40, 8, 2, 4, 16};
  int64_t plain = 0, tiled = 0;
  for (int layer = 0; layer < s.layers; ++layer) {
    for (int head = 0; head < s.batch * s.heads; ++head) {
      plain += 4 * s.length * s.length;                   // P
      for (int i = 0; i < s.length; ++i) tiled += 4 + 4;  // LSE, D
    }
    for (int thread = 0; thread < s.threads; ++thread) tiled += 4 * 2 * s.block * s.block;
  }
  for (int thread = 0; thread < s.threads; ++thread) plain += 4 * s.length * s.length;  // dS
  CHECK(Way{}.attention_bytes(Attention::PLAIN, s) == plain);
  CHECK(Way{}.attention_bytes(Attention::TILED, s) == tiled);
  for (const int64_t budget : {0, 1, 8, 9, 100000}) {
    const auto cubes = [](int length) { return int64_t{length} * length * length; };
    const int longest = Way{}.longest_context(cubes, budget);
    CHECK(cubes(longest) <= budget);
    CHECK(cubes(longest + 1) > budget);
  }
}
