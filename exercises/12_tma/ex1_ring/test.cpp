#include <doctest/doctest.h>

#include <ring.hpp>
#include <set>

#include "exercises/support/warp.hpp"

using namespace emulator;

// The three functions; a mistake changes some of them.
using Formula = int (*)(int tile, int stages);
enum Function { kBuffer, kFull, kEmpty };
struct Functions {
  Formula f[3];
  int operator()(Function function, int tile, int stages) const {
    return f[function](tile, stages);
  }
};
const Functions kRight = {{[](int t, int s) { return t % s; },
                           [](int t, int s) { return t / s % 2; },
                           [](int t, int s) { return (t / s + 1) % 2; }}};

struct Wrong {
  const char *name, *explanation;
  std::vector<Formula> formulas[3];
};
const std::vector<Wrong> kWrong = {
    {"consumer-like-producer",
     "the consumer waits for the parity of the previous pass, whose phase is complete, so that the "
     "wait returns immediately and the tile is not there",
     {{}, {[](int t, int s) { return (t / s + 1) % 2; }}, {}}},
    {"producer-like-consumer",
     "the producer waits for this pass's parity as the consumer does. In the first pass no "
     "consumer has read anything, so that no thread continues. It needs the phase of the previous "
     "pass",
     {{}, {}, {[](int t, int s) { return t / s % 2; }}}},
    {"parities-exchanged",
     "the two parities are exchanged: the consumer waits for this round's phase, the producer for "
     "that of the round before",
     {{}, {[](int t, int s) { return (t / s + 1) % 2; }}, {[](int t, int s) {
        return t / s % 2;
      }}}},
    {"tile-for-round",
     "the parity flips with each tile; a buffer's phase ends once per pass, and the pass is tile / "
     "stages",
     {{},
      {[](int t, int) { return t % 2; }},
      {[](int t, int) { return (t + 1) % 2; }, [](int t, int) { return t % 2; }}}},
    {"round-not-reduced",
     "this is the number of the phase; a parity is its last bit, 0 or 1",
     {{},
      {[](int t, int s) { return t / s; }},
      {[](int t, int s) { return t / s + 1; }, [](int t, int s) { return t / s; },
       [](int t, int s) { return t / s - 1; }}}},
    {"two-buffers-only",
     "right for two buffers; the number of buffers is a parameter",
     {{[](int t, int) { return t % 2; }}, {[](int t, int) { return t / 2 % 2; }}, {[](int t, int) {
        return (t / 2 + 1) % 2;
      }}}},
    {"mask-for-remainder",
     "& (stages - 1) is the remainder only if stages is a power of two; the number of buffers is a "
     "parameter",
     {{[](int t, int s) { return t & (s - 1); }}, {}, {}}},
    {"another-bit",
     "the parity is the last bit of the round, 0 or 1: & 1 or % 2",
     {{},
      {[](int t, int s) { return t / s & 2; }, [](int t, int s) { return t / s / 2 % 2; }},
      {[](int t, int s) { return (t / s + 1) & 2; },
       [](int t, int s) { return (t / s + 1) / 2 % 2; }}}},
    {"modulo-stages",
     "the round was taken modulo the number of buffers; whatever that is, a parity is modulo 2",
     {{},
      {[](int t, int s) { return t / s % s; }},
      {[](int t, int s) { return (t / s + 1) % s; }, [](int t, int s) { return t / s % s; }}}},
    {"negative-parity",
     "in the first round this is -1 % 2, which is -1 in C++; the phase before the first has parity "
     "1: add 1 in place of subtracting it",
     {{}, {}, {[](int t, int s) { return (t / s - 1) % 2; }}}},
    {"first-round-blocked",
     "in the first pass the producer waits for parity 0, a phase that ends when a consumer has "
     "read a tile that never came; parity 1 returns immediately there",
     {{}, {}, {[](int t, int s) { return t < s ? 0 : (t / s + 1) % 2; }}}},
    {"first-round-only",
     "right in the first round; later the producer waits for this round's phase, which ends when "
     "the tile that it has not filled yet was read: it needs the phase of the round before",
     {{}, {}, {[](int t, int s) { return t < s ? 1 : t / s % 2; }}}},
    {"round-cut-towards-zero",
     "(tile - stages) / stages is cut towards 0 in C++: in the first round it is 0 or -1, and not "
     "the phase before the first, whose parity is 1",
     {{}, {}, {[](int t, int s) { return (t - s) / s % 2; }}}},
    {"parity-never-flips",
     "the parity is the same in each pass; a phase ends once per pass, so that the parity flips "
     "with each pass",
     {{},
      {[](int, int) { return 0; }, [](int, int) { return 1; }},
      {[](int, int) { return 1; }, [](int, int) { return 0; }}}},
    {"round-rounded-up",
     "the round was rounded up; tiles 0 to stages - 1 are round 0: tile / stages",
     {{}, {[](int t, int s) { return (t + s - 1) / s % 2; }}, {[](int t, int s) {
        return ((t + s - 1) / s + 1) % 2;
      }}}},
    {"one-tile-off",
     "the round changes one tile too early or too late; tiles count from 0",
     {{},
      {[](int t, int s) { return (t + 1) / s % 2; }, [](int t, int s) { return (t - 1) / s % 2; },
       // A count that begins with 0 is right in a ring of one.
       [](int t, int s) { return ((t + 1) / s - 1 / s) % 2; }},
      {[](int t, int s) { return ((t + 1) / s + 1) % 2; },
       [](int t, int s) { return ((t + 1) / s - 1 / s + 1) % 2; },
       [](int t, int s) { return ((t - 1) / s + 1) % 2; }}}},
    {"buffer-for-round",
     "the parity is the buffer's number, modulo 2: it is the same in each round; the phase is tile "
     "/ stages",
     {{},
      {[](int t, int s) { return t % s % 2; }},
      {[](int t, int s) { return (t % s + 1) % 2; }, [](int t, int s) { return t % s % 2; }}}},
    {"round-for-buffer",
     "tile / stages is the pass; the buffer is the remainder",
     {{[](int t, int s) { return t / s; }, [](int t, int s) { return t / s % s; }}, {}, {}}},
    {"buffer-not-reduced",
     "the buffer is the tile's number; after the last one the ring begins again",
     {{[](int t, int) { return t; }}, {}, {}}},
};

// Each mistake in each choice of the functions, once.
struct Variant {
  const Wrong* wrong;
  Functions functions;
};

static std::vector<Variant> variants() {
  std::vector<Variant> all;
  std::set<std::vector<int>> known;
  const auto add = [&](const Wrong* wrong, const Functions& functions) {
    std::vector<int> numbers;
    for (int stages = 1; stages <= 4; ++stages)
      for (int tile = 0; tile < 4 * stages; ++tile)
        for (const Function f : {kBuffer, kFull, kEmpty})
          numbers.push_back(functions(f, tile, stages));
    if (known.insert(numbers).second && wrong) all.push_back({wrong, functions});
  };
  add(nullptr, kRight);
  for (const Wrong& wrong : kWrong) {
    const auto options = [&](Function f) {
      std::vector<Formula> formulas = wrong.formulas[f];
      formulas.insert(formulas.begin(), kRight.f[f]);
      return formulas;
    };
    for (const Formula buffer : options(kBuffer))
      for (const Formula full : options(kFull))
        for (const Formula empty : options(kEmpty)) add(&wrong, {{buffer, full, empty}});
  }
  return all;
}

// Thread 0 fills the buffers, warp 1 reads them. Returns what the emulator finds.
static std::string ring(int stages, const Functions& functions) {
  const int num_tiles = 4 * stages;
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int buffer = functions(kBuffer, tile, stages);
    if (buffer < 0 || buffer >= stages)
      return "there is no buffer " + std::to_string(buffer) + " in a ring of " +
             std::to_string(stages);
    for (const Function f : {kFull, kEmpty})
      if (functions(f, tile, stages) != 0 && functions(f, tile, stages) != 1)
        return "a parity is 0 or 1, and not " + std::to_string(functions(f, tile, stages));
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
      const int buffer = functions(kBuffer, tile, stages);
      if (thread_index() == 0) {
        mbarrier_wait(empty(buffer), functions(kEmpty, tile, stages));
        store_shared<float>(data(buffer), static_cast<float>(tile));
        mbarrier_arrive(full(buffer));
      } else if (thread_index() >= 32) {
        mbarrier_wait(full(buffer), functions(kFull, tile, stages));
        load_shared<float>(data(buffer));
        mbarrier_arrive(empty(buffer));
      }
    }
  });
  return exercise::hazards(report);
}

static void check_ring(int stages) {
  const auto numbers = [&](const Functions& functions) {
    exercise::Numbers all;
    for (int tile = 0; tile < 4 * stages; ++tile)
      for (const Function f : {kBuffer, kFull, kEmpty}) all.push_back(functions(f, tile, stages));
    return all;
  };
  const Functions answer = {{[](int t, int s) { return static_cast<int>(buffer_of(t, s)); },
                             [](int t, int s) { return static_cast<int>(full_parity(t, s)); },
                             [](int t, int s) { return static_cast<int>(empty_parity(t, s)); }}};
  std::vector<exercise::Mistake> mistakes;
  for (const Variant& variant : variants())
    mistakes.push_back(
        {variant.wrong->name, numbers(variant.functions), variant.wrong->explanation});
  const exercise::Numbers got = numbers(answer), right = numbers(kRight);
  const std::string seen =
      got == right ? "" : "such a ring; thread 0 fills it, warp 1 reads:\n" + ring(stages, answer);
  INFO(seen);
  exercise::check_output({"tile", 3, 0, {"buffer", "full_parity", "empty_parity"}}, got, right,
                         mistakes);
}

TEST_CASE("a ring of one") { check_ring(1); }
TEST_CASE("a ring of two") { check_ring(2); }
TEST_CASE("a ring of three") { check_ring(3); }
TEST_CASE("a ring of four") { check_ring(4); }

// The numbers above are those with which a ring works, and each mistake is one in some ring.
TEST_CASE("the rings") {
  for (int stages = 1; stages <= 4; ++stages) CHECK(ring(stages, kRight) == "");
  for (const Variant& variant : variants()) {
    CAPTURE(std::string(variant.wrong->name));
    std::string found;
    for (int stages = 1; stages <= 4; ++stages) found += ring(stages, variant.functions);
    CHECK(found != "");
  }
}
