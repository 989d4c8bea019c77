#include <doctest/doctest.h>

#include <ring.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;

// The right functions, and each mistake as a change to them.
struct Way {
  exercise::Changes is;

  int buffer_of(int t, int s) const {
    return is("buffer-modulo-2")        ? t % 2
           : is("buffer-masked")        ? t & (s - 1)
           : is("buffer-round")         ? t / s
           : is("buffer-round-reduced") ? t / s % s
           : is("buffer-not-reduced")   ? t
                                        : t % s;
  }
  // `ahead`: how many rounds later the phase is that the mbarrier waits for.
  int parity(const std::string& of, int ahead, int t, int s) const {
    const auto has = [&](const char* change) { return is(of + change); };
    if (has("-0")) return 0;
    if (has("-1")) return 1;
    const int round = has("-tile")     ? t
                      : has("-by-two") ? t / 2
                      : has("-up")     ? (t + s - 1) / s
                      : has("-early")  ? (t + 1) / s
                      : has("-late")   ? (t - 1) / s
                      : has("-from-0") ? (t + 1) / s - 1 / s  // right in a ring of one
                      : has("-buffer") ? t % s
                                       : t / s;
    const int phase = round + (has("-other") ? 1 - ahead : has("-before") ? -1 : ahead);
    return has("-number")       ? phase
           : has("-and-2")      ? phase & 2
           : has("-second-bit") ? phase / 2 % 2
           : has("-modulo")     ? phase % s
                                : phase % 2;
  }
  int full_parity(int t, int s) const { return parity("full", 0, t, s); }
  int empty_parity(int t, int s) const {
    if (is("first-round-blocked") && t < s) return 0;
    if (is("first-round-only")) return t < s ? 1 : t / s % 2;
    if (is("round-cut-towards-zero")) return (t - s) / s % 2;
    return parity("empty", 1, t, s);
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int buffer_of(int tile, int stages) const { return ::buffer_of(tile, stages); }
  int full_parity(int tile, int stages) const { return ::full_parity(tile, stages); }
  int empty_parity(int tile, int stages) const { return ::empty_parity(tile, stages); }
};

static const exercise::Table MISTAKES(R"(
consumer-like-producer: full-other
  the consumer waits for the parity of the previous pass, whose phase is complete, so that the wait
  returns immediately and the tile is not there
producer-like-consumer: empty-other
  the producer waits for this pass's parity as the consumer does. In the first pass no consumer has
  read anything, so that no thread continues. It needs the phase of the previous pass
parities-exchanged: full-other empty-other
  the two parities are exchanged: the consumer waits for this round's phase, the producer for that of
  the round before
tile-for-round: full-tile {,empty-tile} {,empty-other}; empty-tile {,empty-other}
  the parity flips with each tile. A buffer's phase ends once per pass, and the pass is tile /
  stages
round-not-reduced: full-number {,empty-number,empty-number empty-other,empty-number empty-before};
    empty-number {,empty-other,empty-before}
  this is the number of the phase. A parity is its last bit, 0 or 1
two-buffers-only: buffer-modulo-2 {,full-by-two} {,empty-by-two}; full-by-two {,empty-by-two};
    empty-by-two
  right for two buffers. The number of buffers is a parameter
mask-for-remainder: buffer-masked
  & (stages - 1) is the remainder only if stages is a power of two. The number of buffers is a
  parameter
another-bit: {full-and-2,full-second-bit} {,empty-and-2,empty-second-bit};
    {empty-and-2,empty-second-bit}
  the parity is the last bit of the round, 0 or 1: & 1 or % 2
modulo-stages: full-modulo {,empty-modulo,empty-modulo empty-other}; empty-modulo {,empty-other}
  the round was taken modulo the number of buffers. Whatever that is, a parity is modulo 2
negative-parity: empty-before
  in the first round this is -1 % 2, which is -1 in C++. The phase before the first has parity 1:
  add 1 in place of subtracting it
first-round-blocked
  in the first pass the producer waits for parity 0, a phase that ends when a consumer has read a
  tile that never came. Parity 1 returns immediately there
first-round-only
  right in the first round. Later the producer waits for this round's phase, which ends when the
  tile that it has not filled yet was read. It needs the phase of the previous round
round-cut-towards-zero
  (tile - stages) / stages is cut towards 0 in C++: in the first round it is 0 or -1, and not the
  phase before the first, whose parity is 1
parity-never-flips: {full-0,full-1} {,empty-0,empty-1}; {empty-0,empty-1}
  the parity is the same in each pass. A phase ends once per pass, so that the parity flips with
  each pass
round-rounded-up: full-up {,empty-up}; empty-up
  the round was rounded up. Tiles 0 to stages - 1 are round 0: tile / stages
one-tile-off: {full-early,full-late,full-from-0} {,empty-early,empty-late,empty-from-0};
    {empty-early,empty-late,empty-from-0}
  the round changes one tile too early or too late. Tiles count from 0
buffer-for-round: full-buffer {,empty-buffer,empty-buffer empty-other}; empty-buffer {,empty-other}
  the parity is the buffer's number, modulo 2: it is the same in each round. The phase is tile /
  stages
round-for-buffer: buffer-round; buffer-round-reduced
  tile / stages is the pass. The buffer is the remainder
buffer-not-reduced
  the buffer is the tile's number. After the last one the ring begins again
)");

// Three numbers for each tile, which are its buffer, and the two parities.
template <class Functions>
static exercise::Numbers numbers(int stages, const Functions& functions) {
  exercise::Numbers all;
  for (int tile = 0; tile < 4 * stages; ++tile)
    for (const int number : {functions.buffer_of(tile, stages), functions.full_parity(tile, stages),
                             functions.empty_parity(tile, stages)})
      all.push_back(number);
  return all;
}

// Thread 0 fills the buffers, warp 1 reads them. Returns what the emulator finds.
static std::string ring(int stages, const exercise::Numbers& numbers) {
  const int num_tiles = 4 * stages;
  const auto number = [&](int tile, int which) {
    return static_cast<int>(numbers[tile * 3 + which]);
  };
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int buffer = number(tile, 0);
    if (buffer < 0 || buffer >= stages)
      return "there is no buffer " + std::to_string(buffer) + " in a ring of " +
             std::to_string(stages);
    for (const int which : {1, 2})
      if (number(tile, which) != 0 && number(tile, which) != 1)
        return "a parity is 0 or 1, and not " + std::to_string(number(tile, which));
  }
  const fa::simt::Report report = exercise::run_block(64, stages * 20, [&] {
    const auto full = [](int buffer) { return dynamic_smem() + buffer * 16; };
    const auto empty = [&](int buffer) { return full(buffer) + 8; };
    const auto data = [&](int buffer) { return full(stages) + buffer * 4; };
    if (thread_index() == 0) {
      for (int i = 0; i < stages; ++i) mbarrier_init(full(i), 1), mbarrier_init(empty(i), 32);
    }
    block_sync();
    for (int tile = 0; tile < num_tiles; ++tile) {
      const int buffer = number(tile, 0);
      if (thread_index() == 0) {
        mbarrier_wait(empty(buffer), number(tile, 2));
        store_shared<float>(data(buffer), static_cast<float>(tile));
        mbarrier_arrive(full(buffer));
      } else if (thread_index() >= 32) {
        mbarrier_wait(full(buffer), number(tile, 1));
        load_shared<float>(data(buffer));
        mbarrier_arrive(empty(buffer));
      }
    }
  });
  return exercise::hazards(report);
}

static void check_ring(int stages) {
  const exercise::Numbers got = numbers(stages, Answer{});
  const std::string seen =
      got == numbers(stages, Way{})
          ? ""
          : "such a ring; thread 0 fills it, warp 1 reads:\n" + ring(stages, got);
  INFO(seen);
  exercise::check_output<Way, Answer>(
      {"tile", 3, 0, {"buffer", "full_parity", "empty_parity"}}, MISTAKES,
      [&](const auto& functions) { return numbers(stages, functions); });
}

TEST_CASE("a ring of one") { check_ring(1); }
TEST_CASE("a ring of two") { check_ring(2); }
TEST_CASE("a ring of three") { check_ring(3); }
TEST_CASE("a ring of four") { check_ring(4); }

// The numbers above are those with which a ring works, and each mistake is one in some ring.
TEST_CASE("the rings") {
  for (int stages = 1; stages <= 4; ++stages) CHECK(ring(stages, numbers(stages, Way{})) == "");
  for (const exercise::Row& row : MISTAKES) {
    CAPTURE(row.name);
    std::string found;
    for (int stages = 1; stages <= 4; ++stages)
      found += ring(stages, numbers(stages, Way{row.changes}));
    CHECK(found != "");
  }
}
