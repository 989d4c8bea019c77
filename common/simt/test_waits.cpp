// Other ways to wait than one barrier for all threads, such as named barriers, warpgroups and
// single lanes. Also threads that wait forever.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "common/simt/block.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::Report;

constexpr int kThreads = 128;  // two warps produce, two consume
constexpr int kHalf = kThreads / 2;
constexpr uint32_t kSmem = kThreads * 16;

uint32_t word(int i) { return dynamic_smem() + static_cast<uint32_t>(i) * 4; }

using Kernel = void (*)(float* out, bool broken);

constexpr int64_t kMaxSteps = 1000;

Report run_kernel(Kernel kernel, bool broken, uint64_t seed, int threads = kThreads,
                  int64_t max_steps = kMaxSteps) {
  Buffer<float> out(kThreads, "out");
  Config config{.schedule_seed = seed, .max_steps = max_steps};
  return fa::simt::run(config, [&] { launch(kernel, 1, threads, kSmem, out.data(), broken); });
}

void check_twins(std::initializer_list<Kernel> kernels, const std::string& expected) {
  for (const Kernel kernel : kernels)
    fa::simt::check_twins(
        [&](const Config& config, bool broken) {
          return run_kernel(kernel, broken, config.schedule_seed);
        },
        expected);
}

constexpr int kFull = 1, kEmpty = 2;

// In a ring of one buffer, producers wait until it is empty, consumers until it is full. In the
// broken version, consumers release it before they have read it.
void ring(float* out, bool broken) {
  const int t = thread_index() % kHalf;
  float sum = 0;
  for (int tile = 0; tile < 4; ++tile) {
    if (thread_index() < kHalf) {
      if (tile > 0) barrier_sync(kEmpty, kThreads);
      store_shared<float>(word(t), static_cast<float>(tile));
      barrier_arrive(kFull, kThreads);
    } else {
      barrier_sync(kFull, kThreads);
      if (broken && tile < 3) barrier_arrive(kEmpty, kThreads);
      sum += load_shared<float>(word(kHalf - 1 - t));
      if (!broken && tile < 3) barrier_arrive(kEmpty, kThreads);
    }
  }
  if (thread_index() >= kHalf) store_global(out + t, sum);
}

TEST_CASE("named barriers: producers and consumers of a ring") {
  check_twins({ring}, "read_before_barrier");
  Buffer<float> out(kThreads, "out");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config{.schedule_seed = seed};
    const Report report =
        fa::simt::run(config, [&] { launch(ring, 1, kThreads, kSmem, out.data(), false); });
    CHECK(report.hazards.empty());
    CHECK(report.counters.barriers == 4 * 4 + 3 * 4);
    CHECK(is_estimate(report.counters, "barriers"));  // named barriers are not confirmed by
                                                      // hardware
    for (int i = 0; i < kHalf; ++i) CHECK(out[static_cast<size_t>(i)] == 6.0f);
  }
}

TEST_CASE("named barriers: the event log says which one, and who only arrives") {
  using fa::simt::EventKind;
  Buffer<float> out(kThreads, "out");
  Config config{.events = true};
  const Report report =
      fa::simt::run(config, [&] { launch(ring, 1, kThreads, kSmem, out.data(), false); });
  for (int warp = 0; warp < 4; ++warp) {
    const bool produces = warp < 2;
    int waits = 0, arrivals = 0;
    for (const fa::simt::Event& event : report.events) {
      if (event.warp != warp) continue;
      CHECK((event.barrier == -1) ==
            (event.kind != EventKind::kBarrier && event.kind != EventKind::kBarrierArrive));
      if (event.kind == EventKind::kBarrier) {
        CHECK(event.barrier == (produces ? kEmpty : kFull));
        ++waits;
      }
      if (event.kind == EventKind::kBarrierArrive) {
        CHECK(event.barrier == (produces ? kFull : kEmpty));
        ++arrivals;
      }
    }
    CHECK(waits == (produces ? 3 : 4));
    CHECK(arrivals == (produces ? 4 : 3));
  }
}

// Consumers only arrive at "full" instead of waiting, so nothing orders the tile before their
// reads.
void consumers_do_not_wait(float* out, bool broken) {
  const int t = thread_index() % kHalf;
  store_shared<float>(word(thread_index()), 0.0f);
  block_sync();
  if (thread_index() < kHalf) {
    store_shared<float>(word(t), 1.0f);
    barrier_arrive(kFull, kThreads);
  } else {
    broken ? barrier_arrive(kFull, kThreads) : barrier_sync(kFull, kThreads);
    store_global(out + t, load_shared<float>(word(t)));
  }
}

// The first read comes before the first tile. The tile is written after the consumers have let the
// producers continue, so no thread has written what was read.
void reads_before_the_first_tile(float* out, bool broken) {
  const int t = thread_index() % kHalf;
  if (thread_index() < kHalf) {
    barrier_sync(kEmpty, kThreads);
    store_shared<float>(word(t), 1.0f);
    barrier_arrive(kFull, kThreads);
  } else {
    if (broken) store_global(out + t, load_shared<float>(word(t)));
    barrier_arrive(kEmpty, kThreads);
    barrier_sync(kFull, kThreads);
    store_global(out + t, load_shared<float>(word(t)));
  }
}

// Barriers of two pairs of warps do not order one pair with the other.
void another_barrier(float* out, bool broken) {
  const int t = thread_index(), pair = t / kHalf;
  store_shared<float>(word(t), 1.0f);
  barrier_sync(broken ? 1 + pair : 3, broken ? kHalf : kThreads);
  store_global(out + t, load_shared<float>(word(kThreads - 1 - t)));
}

TEST_CASE("races between warps that synchronize, but not enough") {
  check_twins({consumers_do_not_wait, another_barrier}, "read_before_barrier");
  check_twins({reads_before_the_first_tile}, "uninitialized_read");
}

void nobody_fills(float* out, bool broken) {
  if (thread_index() < kHalf) {
    if (!broken) barrier_arrive(kFull, kThreads);
  } else {
    barrier_sync(kFull, kThreads);
    store_global(out + thread_index(), 1.0f);
  }
}

void each_waits_for_the_other(float*, bool broken) {
  if (thread_index() < kHalf) {
    barrier_sync(kFull, kThreads);
    barrier_arrive(kEmpty, kThreads);
  } else {
    if (!broken) barrier_arrive(kFull, kThreads);
    barrier_sync(kEmpty, kThreads);
    if (broken) barrier_arrive(kFull, kThreads);
  }
}

void one_role_waits_for_all(float*, bool broken) {
  if (thread_index() < kHalf) {
    if (broken) block_sync();
    barrier_arrive(kFull, kThreads);
  } else {
    barrier_sync(kFull, kThreads);
    if (broken) block_sync();
  }
}

TEST_CASE("deadlock: which threads wait where, for what") {
  check_twins({nobody_fills, each_waits_for_the_other, one_role_waits_for_all}, "deadlock");
  const Report report = run_kernel(nobody_fills, true, 0);
  REQUIRE(report.hazards.size() == 1);
  const std::string& text = report.hazards[0].text;
  CHECK(text.find("2 warps (warp 2 first) wait at barrier_sync 1 (") != std::string::npos);
  CHECK(text.find("64 of 128 threads have arrived; 64 threads have returned") != std::string::npos);
  const std::string both = run_kernel(one_role_waits_for_all, true, 0).hazards[0].text;
  CHECK(both.find("block_sync") != std::string::npos);
  CHECK(both.find("barrier_sync 1") != std::string::npos);
}

void numbers_that_differ(float*, bool broken) {
  barrier_sync(1, broken && thread_index() >= kHalf ? 96 : kThreads);
}

TEST_CASE("a named barrier has one number of threads, and it is possible") {
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (const bool broken : {false, true})
      CHECK(kinds(run_kernel(numbers_that_differ, broken, seed)) ==
            (broken ? "barrier_divergence" : ""));
  const auto refused = [](int barrier, int threads, const char* why) {
    CHECK_THROWS_WITH_AS(
        launch(
            +[](int b, int n) { barrier_sync(b, n); }, 1, kThreads, 0, barrier, threads),
        doctest::Contains(why), std::runtime_error);
  };
  refused(0, kThreads, "0 is block_sync");
  refused(16, kThreads, "1 to 15");
  refused(1, 40, "whole warps");
  refused(1, 2 * kThreads, "the block's 128 threads");
}

// Models wgmma, where four warps execute one instruction. Returns the number of warps that met.
float meet_four_warps(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  fa::simt::Thread& thread = fa::simt::current_thread();
  fa::simt::Warp& warp = *thread.warp;
  const fa::simt::Site site{file, line};
  thread.block->begin_instruction(thread, site);
  float result = 0;
  warp.c[thread.lane] = &result;
  if (thread.block->meet_warpgroup(thread, fa::simt::Instruction::kMma, site)) {
    fa::simt::Warp* const first = &warp - warp.index % 4;
    for (int w = 0; w < 4; ++w) {
      for (float* each : first[w].c) *each += static_cast<float>(first[w].index);
    }
  }
  return result;
}

void warpgroups(float* out, bool broken) {
  if (broken && thread_index() < 32) {
    store_global(out + thread_index(), meet_four_warps());
  } else {
    store_global(out + thread_index() % kThreads, meet_four_warps());
  }
}

TEST_CASE("a warpgroup executes an instruction together") {
  check_twins({warpgroups}, "barrier_divergence");
  Buffer<float> out(256, "out");
  const Report report = fa::simt::run({}, [&] {
    launch(
        +[](float* o) { store_global(o + thread_index(), meet_four_warps()); }, 1, 256, 0,
        out.data());
  });
  CHECK(report.hazards.empty());
  for (size_t i = 0; i < 256; ++i) CHECK(out[i] == static_cast<float>(i / 128 * 4 + i % 128 / 32));
  CHECK_THROWS_WITH_AS(run_kernel(warpgroups, false, 0, 64), doctest::Contains("multiple of 128"),
                       std::runtime_error);
}

// Models an mbarrier, where lanes arrive alone and wait alone.
struct Arrivals {
  int left;
  fa::simt::Clock clock = {};
  std::vector<fa::simt::Thread*> waiting = {};

  void arrive() {
    if (left == 0) return;  // an arrival for the next phase
    fa::simt::Thread& thread = fa::simt::current_thread();
    clock.join(thread.block->release(thread));
    if (--left > 0) return;
    for (fa::simt::Thread* each : waiting) each->block->wake(*each);
  }
  void wait(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
    fa::simt::Thread& thread = fa::simt::current_thread();
    if (left > 0) {
      waiting.push_back(&thread);
      thread.block->park(thread, {fa::simt::Instruction::kBarrierSync, {file, line}});
    }
    thread.block->acquire(thread, clock);
  }
};

enum class Mistake { kNone, kNoWarpSyncBefore, kNoWarpSyncAfter, kNobodyArrives, kTooFew };

// One lane of each producer warp arrives for its warp, and one lane of each consumer warp waits.
void single_lanes(float* out, Arrivals* arrivals, Mistake mistake) {
  const int t = thread_index() % kHalf;
  const bool elected = thread_index() % 32 == 7;
  if (thread_index() < kHalf) {
    store_shared<float>(word(t), 1.0f);
    if (mistake != Mistake::kNoWarpSyncBefore) warp_sync();
    if (elected && mistake != Mistake::kNobodyArrives) arrivals->arrive();
  } else {
    if (elected) arrivals->wait();
    if (mistake != Mistake::kNoWarpSyncAfter) warp_sync();
    store_global(out + t, load_shared<float>(word(kHalf - 1 - t)));
  }
}

TEST_CASE("single lanes wait, and what they learn is theirs until they pass it on") {
  Buffer<float> out(kThreads, "out");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const auto found = [&](Mistake mistake, int arrivals) {
      Config config{.schedule_seed = seed};
      Arrivals barrier{arrivals};
      return kinds(fa::simt::run(config, [&] {
        launch(single_lanes, 1, kThreads, kSmem, out.data(), &barrier, mistake);
      }));
    };
    CHECK(found(Mistake::kNone, 2) == "");
    for (int i = 0; i < kHalf; ++i) CHECK(out[static_cast<size_t>(i)] == 1.0f);
    CHECK(found(Mistake::kNoWarpSyncBefore, 2) == "read_before_barrier");
    CHECK(found(Mistake::kNoWarpSyncAfter, 2).find("read_before_barrier") == 0);
    CHECK(found(Mistake::kTooFew, 1) == "read_before_barrier");
    CHECK(found(Mistake::kNobodyArrives, 2) == "deadlock");
  }
}

// A flag in shared memory, polled by a lane of the same warp or of another.
void flag_in_shared_memory(float* out, bool broken) {
  const int t = thread_index();
  if (t < 64) store_shared<float>(word(t), 0.0f);
  block_sync();
  if (t == 3 || t == 70) {
    while (load_shared<float>(word(0)) == 0.0f) {
    }
    store_global(out + t, 1.0f);
  } else if (t == 100 && !broken) {
    store_shared<float>(word(0), 1.0f);
  }
}

TEST_CASE("a kernel that looks at memory for ever is ended") {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    const Report endless = run_kernel(flag_in_shared_memory, true, seed, kThreads, 1 << 28);
    CHECK(kinds(endless) == "deadlock");
    CHECK(endless.hazards[0].text.find("memory that no thread will change") != std::string::npos);
    // It is a race and not a hang, because it has a plain load and a plain store.
    CHECK(kinds(run_kernel(flag_in_shared_memory, false, seed)).find("deadlock") ==
          std::string::npos);
  }
}

void counts_for_ever(float* out, bool broken) {
  for (int i = 0; broken || i < 10; ++i) store_global(out + thread_index(), static_cast<float>(i));
}

void synchronizes_for_ever(float*, bool broken) {
  for (int i = 0; broken || i < 10; ++i) block_sync();
}

void votes_for_ever(float*, bool broken) {
  while (warp_any(broken)) {
  }
}

TEST_CASE("a kernel that does not come to an end is ended") {
  check_twins({counts_for_ever, synchronizes_for_ever, votes_for_ever}, "deadlock");
  CHECK(
      run_kernel(counts_for_ever, true, 0).hazards[0].text.find("has executed 1000 instructions") !=
      std::string::npos);
  Config config{.hazards = false, .max_steps = 1000};
  CHECK_THROWS_WITH_AS(
      fa::simt::run(config, [] { launch(synchronizes_for_ever, 1, 32, 0, nullptr, true); }),
      doctest::Contains("deadlock"), std::runtime_error);
}

}  // namespace
