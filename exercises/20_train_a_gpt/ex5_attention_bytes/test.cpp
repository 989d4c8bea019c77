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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int64_t attention_bytes(Attention attention, const Shape& s) const {
    const auto wrapped = [](uint64_t x) {
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(x)));
    };
    const bool plain = (attention == Attention::PLAIN) != is("kinds-exchanged");
    const bool one_layer =
        is("forgotten") || is(plain ? "forgotten-in-plain" : "forgotten-in-tiled");
    const uint64_t T = s.length, dim = s.dim, L = one_layer ? 1 : s.layers;
    const uint64_t heads =
        static_cast<uint64_t>(is("batch-forgotten") || is("both-forgotten") ? 1 : s.batch) *
        (is("heads-forgotten") || is("both-forgotten") ? 1 : s.heads);
    const uint64_t threads = is("idle-threads-counted")      ? s.threads
                             : is("threads-of-one-sequence") ? at_most(s.threads, s.heads)
                                                             : at_most(s.threads, heads);
    const uint64_t block = is("tile-larger-than-the-matrix") ? s.block : at_most(s.block, T);
    const uint64_t of_plain = is("ds-forgotten")             ? L * heads
                              : is("ds-for-every-p")         ? 2 * L * heads
                              : is("ds-in-every-layer")      ? L * (heads + threads)
                              : is("one-ds-for-all-threads") ? L * heads + 1
                              : is("ds-for-every-head")      ? L * heads + heads
                                                             : L * heads + threads;
    uint64_t square = is("once")            ? T
                      : is("half-a-matrix") ? T * (T + 1) / 2
                      : is("twice")         ? 2 * T
                                            : T * T;
    if (is("square-in-32")) square = wrapped(square);
    const uint64_t a_row = is("one-number-a-row")      ? 1
                           : is("three-numbers-a-row") ? 3
                           : is("rows-forgotten")      ? 0
                                                       : 2;
    const uint64_t of_rows = a_row * heads * T * (is("rows-of-one-layer") ? 1 : L);
    const uint64_t a_tile = is("side-of-a-tile")      ? block
                            : is("tile-of-rows-of-q") ? block * dim
                                                      : block * block;
    const uint64_t of_tiles = is("tiles-forgotten")
                                  ? 0
                                  : (is("one-tile-a-thread") ? 1 : 2) *
                                        (is("tiles-of-one-thread")  ? 1
                                         : is("tiles-of-each-head") ? heads
                                                                    : threads) *
                                        a_tile * (is("tiles-of-one-layer") ? 1 : L);
    uint64_t numbers = plain ? of_plain * square : of_rows + of_tiles;
    if (is("o-of-both") || (is("o-of-tiled") && !plain)) numbers += L * heads * T * dim;
    if (is("qkvo-of-both")) numbers += 4 * L * heads * T * dim;
    if (is("product-in-32") || is("all-in-32")) numbers = wrapped(numbers);
    uint64_t bytes = numbers * is.integer("number-bytes", 4);
    if (is("all-in-32")) bytes = wrapped(bytes);
    if (is("rounded-to-fp32")) return static_cast<int64_t>(static_cast<float>(bytes));
    return static_cast<int64_t>(bytes);
  }

  int longest_context(const std::function<int64_t(int)>& bytes, int64_t budget) const {
    if (is("taken-as-proportional")) return static_cast<int>(budget / bytes(1));
    if (is("taken-as-square")) {
      const double root = std::sqrt(static_cast<double>(budget) / static_cast<double>(bytes(1)));
      return static_cast<int>(root);
    }
    const auto fits = [&](int length) {
      return is("exact-fit-refused") ? bytes(length) < budget : bytes(length) <= budget;
    };
    int longest = 0, too_long = is.integer("start", 1);
    if (is("middle-overflows")) bytes(-(1 << 30));
    if (is("linear")) {
      while (fits(longest + 1)) ++longest;
      return longest;
    }
    if (is("from-budget")) {
      too_long = static_cast<int>(
          std::min<int64_t>(std::max<int64_t>(budget, 1), std::numeric_limits<int>::max()));
    }
    while (!is("start") && !is("from-budget") && fits(too_long)) longest = too_long, too_long *= 2;
    if (is("one-back")) {
      while (too_long > 0 && !fits(too_long)) --too_long;
      return too_long;
    }
    const bool powers = is("powers-of-two") || is("powers-from-one");
    while (!powers && too_long - longest > (is("search-never-ends") ? 0 : 1)) {
      const int middle = longest + (too_long - longest) / 2;
      (fits(middle) ? longest : too_long) = middle;
    }
    if (is("clip")) return std::min(longest, is.integer("clip", 0));
    if (is("below")) return std::min(longest, is.integer("below", 0) - 1);
    if (longest == 0) {
      return is("one-token-always-fits") || is("powers-from-one") || is("first-that-does-not") ? 1
             : is("minus-one-for-none")                                                        ? -1
                                                                                               : 0;
    }
    return longest + (is("first-that-does-not") || is("first-or-zero")) - (is("one-too-short"));
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int64_t attention_bytes(Attention attention, const Shape& shape) const {
    return ::attention_bytes(attention, shape);
  }
  int longest_context(const std::function<int64_t(int)>& bytes, int64_t budget) const {
    return ::longest_context(bytes, budget);
  }
};

static const exercise::Table MISTAKES(R"(
batch-forgotten
  the heads of one sequence were counted. Every sequence of the batch has its own
heads-forgotten: heads-forgotten; both-forgotten
  one head a sequence was counted. Each head has its own P, or LSE and D
layers-forgotten: forgotten; forgotten-in-plain; forgotten-in-tiled
  one layer was counted. All of them keep theirs until the backward pass comes to them
ds-forgotten
  P alone was counted. In the backward pass each thread has a dS of the same size
ds-for-every-p
  a dS was counted for each P. Only as many are there at once as threads work
ds-in-every-layer
  each layer was given its own dS. A layer gives them back before the next one's backward pass
one-ds-for-all-threads
  one dS was counted. Each thread works at another head and needs its own
ds-for-every-head
  a dS was counted for each head of a layer. Only as many are there at once as threads work
length-once: once; twice
  P was counted with T numbers. Each of T queries has a weight for each of T keys: T * T
half-a-matrix
  only the keys that a query sees were counted. The program stores the hidden ones, too, as zeros: T
  * T
one-number-a-row
  one number per row was counted for tiled attention. There are two: LSE and D
three-numbers-a-row
  three numbers per row were counted for tiled attention. m and l are kept as one number, LSE, and D
  is the second
rows-forgotten
  only tiles were counted for tiled attention. LSE and D of each row are kept, too
rows-of-one-layer
  LSE and D of one layer were counted. Each layer keeps its own
one-tile-a-thread
  one tile per thread was counted. There are two: P and dS
tiles-forgotten
  only LSE and D were counted for tiled attention. Each thread has two tiles, too
tiles-of-one-layer
  the tiles were counted once for the model. But here each layer allocates its own
tiles-of-one-thread
  the tiles of one thread were counted. Each thread has its own
tiles-of-each-head
  two tiles were counted for each head. A thread has two, and works at one head after the other
tile-larger-than-the-matrix
  tiles were counted as [block, block] although T is less than a block. They are [T, T] then
side-of-a-tile
  a tile was counted with `block` numbers. It has block * block
tile-of-rows-of-q
  a tile was counted as [block, dim], like one of Q. Tiles of P and dS are [block, block]
idle-threads-counted
  all threads were counted. A thread works at a head, and there are fewer: min(threads, B * H)
threads-of-one-sequence
  threads were limited to the heads of one sequence. They work at all sequences of the batch:
  min(threads, B * H)
kinds-exchanged
  plain was counted as tiled, and tiled as plain
q-k-v-o-counted: o-of-tiled; o-of-both; qkvo-of-both
  tensors of the model were counted, O or Q, K and V as well. Both kinds of attention need them, and
  they are not attention's own
numbers-for-bytes: number-bytes=1
  numbers were counted. A number of fp32 has 4 bytes
two-bytes-a-number: number-bytes=2
  2 bytes a number were counted, as for bf16. The program computes in fp32: 4
eight-bytes-a-number: number-bytes=8
  8 bytes a number were counted, as for double. The program computes in fp32: 4
thirty-two-bits: product-in-32; square-in-32; all-in-32
  a product was computed in 32 bits and is wrong above 2^31: begin it with an int64_t
rounded-to-fp32
  the bytes were computed in fp32, which is exact up to 2^24 only: int64_t
exact-fit-refused
  a context that needs exactly the budget was refused. It fits: <=
first-that-does-not-fit: first-that-does-not; first-or-zero
  the answer is one too long: it is the first context that does not fit
one-too-short
  the answer is one too short, even where the context does not fill the budget
powers-of-two-only: powers-of-two; powers-from-one
  the answer is the largest power of 2 that fits. Up to the next one longer contexts may fit: bisect
  between the two
one-token-always-fits
  the answer is 1 although not even that fits: 0
minus-one-for-none
  the answer is -1 where nothing fits. It should be 0
one-after-the-other: linear; one-back
  contexts were tried one after the other, and millions may fit: double, then bisect
search-never-ends
  the search asks about the same contexts again and again: in each round one of its ends has to
  move, and it is over when they are neighbours
search-begins-too-high: start={1073741824,2147483647,1000000000,2000000000}; from-budget
  a context was asked about whose bytes 64 bits do not hold. A number that has wrapped round may
  seem to fit: begin with 1 and double
middle-overflows
  a context of less than 0 tokens was asked about: the sum of two large ints is negative, and so is
  half of it. Begin with 1 and double
search-ends-too-low: {clip,below}={65536,131072,1048576,100000,1000000}
  no context above a fixed limit was found. With a large budget longer ones fit: double until one
  does not
taken-as-proportional
  the budget was divided by the bytes of one token. They grow with the square of the context, or
  with something that is there from the beginning: search
taken-as-square
  the bytes were taken to be T * T times those of one token. Those of tiled attention are not:
  search
)");

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
    const char* const kind = attention == Attention::PLAIN ? "plain" : "tiled";
    exercise::check_output<Way, Answer>(
        {words(shape) + ", T = " + std::to_string(shape.length) + ", bytes of " + kind, 0, 0},
        MISTAKES, bytes);
  }
}

// Returns the result of a search, or why it was stopped.
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
  exercise::check_shown<Way, Answer>(
      words(shape) + ", longest of " + (attention == Attention::PLAIN ? "plain" : "tiled") +
          " in " + std::to_string(budget) + " bytes",
      MISTAKES, [&](const auto& way) { return found(way, attention, shape, budget); });
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
TEST_CASE("2^31 bytes and more") {
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

// The answer that this test expects: one allocation after the other, as the program makes them.
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
