// Phases and parities of mbarriers, the order that they establish, and their hazards.

#include <string>

#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::check_twins;
using fa::simt::Config;
using fa::simt::Report;

constexpr int kThreads = 128;  // two warps produce, two consume
constexpr int kHalf = kThreads / 2;
constexpr uint32_t kSmem = 64 + kThreads * 4;

uint32_t barrier(int i) { return dynamic_smem() + static_cast<uint32_t>(i) * 8; }
uint32_t word(int i) { return dynamic_smem() + 64 + static_cast<uint32_t>(i) * 4; }

using Kernel = void (*)(float* out, bool broken);

Report run_kernel(Kernel kernel, const Config& config, bool broken) {
  Buffer<float> out(kThreads, "out");
  return fa::simt::run(config, [&] { launch(kernel, 1, kThreads, kSmem, out.data(), broken); });
}
std::string twins(Kernel kernel, const std::string& expected) {
  return check_twins(
      [=](const Config& config, bool broken) { return run_kernel(kernel, config, broken); },
      expected);
}
void twins(std::initializer_list<Kernel> kernels, const std::string& expected) {
  for (const Kernel kernel : kernels) twins(kernel, expected);
}

void init(int i, int arrivals) {
  if (thread_index() == 0) {
    mbarrier_init(barrier(i), arrivals);
    fence_mbarrier_init();
  }
}

// Initializes mbarriers 0, 1, … for these arrivals, and synchronizes the block.
void ready(std::initializer_list<int> arrivals) {
  int i = 0;
  for (const int count : arrivals) init(i++, count);
  block_sync();
}

// A ring of one buffer. Every producer arrives at `full`, and one lane of each consumer warp at
// `empty`.
void ring(float* out, bool broken) {
  ready({kHalf, 2});
  const int t = thread_index() % kHalf;
  float sum = 0;
  for (int tile = 0; tile < 5; ++tile) {
    if (thread_index() < kHalf) {
      mbarrier_wait(barrier(1), (tile & 1) ^ 1);
      store_shared<float>(word(t), static_cast<float>(tile));
      mbarrier_arrive(barrier(0));
    } else {
      if (!broken || tile == 0) mbarrier_wait(barrier(0), tile & 1);
      sum += load_shared<float>(word(kHalf - 1 - t));
      warp_sync();
      if (thread_index() % 32 == 9) mbarrier_arrive(barrier(1));
    }
  }
  if (thread_index() >= kHalf) store_global(out + t, sum);
}

TEST_CASE("a ring of one buffer between two full and empty mbarriers") {
  Buffer<float> out(kThreads, "out");
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Config config{.schedule_seed = seed};
    const Report report =
        fa::simt::run(config, [&] { launch(ring, 1, kThreads, kSmem, out.data(), false); });
    CHECK(texts(report) == "");
    for (int i = 0; i < kHalf; ++i) CHECK(out[static_cast<size_t>(i)] == 10.0f);
    // Per warp, two init, and a wait and an arrive for each of five tiles. Arrivals of lane 9 are
    // separate instructions.
    CHECK(report.counters.mbarrier_operations == 2 + 4 * 5 * 2);
    CHECK(is_estimate(report.counters, "mbarrier_operations"));
  }
}

TEST_CASE("a fresh mbarrier: parity 1 is complete, parity 0 is not; then they take turns") {
  Buffer<int> out(8, "out");
  const Report report = fa::simt::run({}, [&] {
    launch(
        +[](int* result) {
          if (thread_index() != 0) return;
          mbarrier_init(barrier(0), 2);
          for (int phase = 0; phase < 2; ++phase) {
            store_global(result++, static_cast<int>(mbarrier_try_wait(barrier(0), 0)));
            store_global(result++, static_cast<int>(mbarrier_try_wait(barrier(0), 1)));
            mbarrier_arrive(barrier(0));
            store_global(result++, static_cast<int>(mbarrier_try_wait(barrier(0), phase)));
            mbarrier_arrive(barrier(0));
            store_global(result++, static_cast<int>(mbarrier_try_wait(barrier(0), phase)));
          }
        },
        1, 32, kSmem, out.data());
  });
  CHECK(texts(report) == "");
  const int expected[] = {0, 1, 0, 1, 1, 0, 0, 1};
  for (size_t i = 0; i < 8; ++i) CHECK(out[i] == expected[i]);
}

// A successful wait orders the arriving thread's accesses before those of the waiting thread.
// Without the wait they are unordered.
template <bool TRY>
void flag(float* out, bool broken) {
  ready({1});
  if (thread_index() == 5) {
    store_shared<float>(word(0), 1.0f);
    mbarrier_arrive(barrier(0));
  } else if (thread_index() == 70) {
    if (!TRY && !broken) mbarrier_wait(barrier(0), 0);
    while (TRY && !broken && !mbarrier_try_wait(barrier(0), 0)) {  // the kernel's own loop
    }
    store_global(out, load_shared<float>(word(0)));
  }
}

// One lane arrives for its warp, so accesses of the other lanes need a warp_sync before.
void arrives_for_its_warp(float* out, bool broken) {
  ready({1});
  const int t = thread_index();
  if (t < 32) {
    store_shared<float>(word(t), 1.0f);
    if (!broken) warp_sync();
    if (t == 0) mbarrier_arrive(barrier(0));
  } else {
    mbarrier_wait(barrier(0), 0);
    store_global(out + t, load_shared<float>(word(t % 32)));
  }
}

TEST_CASE("arrive releases, a successful wait acquires") {
  twins({flag<false>, flag<true>, arrives_for_its_warp}, "read_before_barrier");
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Config config{.schedule_seed = seed};
    CHECK(kinds(run_kernel(ring, config, true)) != "");
  }
}

void one_arrival_too_few(float*, bool broken) {
  ready({3});
  if (thread_index() < (broken ? 2 : 3)) mbarrier_arrive(barrier(0));
  if (thread_index() >= kHalf) mbarrier_wait(barrier(0), 0);
}

void producer_starts_with_parity_0(float*, bool broken) {
  ready({1, 1});
  for (int tile = 0; tile < 2; ++tile) {
    if (thread_index() == 0) {
      mbarrier_wait(barrier(1), broken ? tile & 1 : (tile & 1) ^ 1);
      mbarrier_arrive(barrier(0));
    } else if (thread_index() == 32) {
      mbarrier_wait(barrier(0), tile & 1);
      mbarrier_arrive(barrier(1));
    }
  }
}

void looks_for_ever(float*, bool broken) {
  ready({1});
  if (thread_index() == 0 && !broken) mbarrier_arrive(barrier(0));
  if (thread_index() == 40) {
    while (!mbarrier_try_wait(barrier(0), 0)) {
    }
  }
}

TEST_CASE("deadlock: which mbarrier, which phase, how many arrivals") {
  const std::string text = twins(one_arrival_too_few, "deadlock");
  CHECK(text.find("64 threads (thread 64 first) wait at mbarrier_wait (") != std::string::npos);
  CHECK(text.find("the mbarrier at byte 0, whose phase 0 (parity 0) is missing 1 of 3 arrivals") !=
        std::string::npos);
  twins(producer_starts_with_parity_0, "deadlock");
  Config config;
  CHECK(kinds(run_kernel(looks_for_ever, config, true)) == "deadlock");
  CHECK(kinds(run_kernel(looks_for_ever, config, false)) == "");
}

// The expected bytes are never copied.
void expects_bytes(float*, bool broken) {
  ready({1});
  if (thread_index() == 0) mbarrier_arrive_expect_tx(barrier(0), broken ? 64 : 0);
  if (thread_index() == 32) mbarrier_wait(barrier(0), 0);
}

// No thread waits, so the incomplete phase is reported at the end.
void expects_bytes_and_goes(float*, bool broken) {
  init(0, 1);
  if (thread_index() == 0 && broken) mbarrier_expect_tx(barrier(0), 64);
}

void expects_too_much(float*, bool broken) {
  init(0, 2);
  if (thread_index() != 0 || !broken) return;
  mbarrier_expect_tx(barrier(0), 1 << 19);
  mbarrier_expect_tx(barrier(0), 1 << 19);
}

void arrives_once_more(float*, bool broken) {
  init(0, 1);
  if (thread_index() != 0) return;
  if (broken) mbarrier_expect_tx(barrier(0), 16);
  mbarrier_arrive(barrier(0));
  mbarrier_arrive(barrier(0));
}

TEST_CASE("transaction_mismatch") {
  const std::string text = twins(expects_bytes, "transaction_mismatch");
  CHECK(text.find("phase 0 (parity 0) is missing 64 bytes") != std::string::npos);
  twins({expects_bytes_and_goes, expects_too_much, arrives_once_more}, "transaction_mismatch");
}

// The arriving thread does not wait for the waiting one, so it may be two phases ahead.
void runs_ahead(float*, bool broken) {
  ready({1, 1});
  for (int phase = 0; phase < 3; ++phase) {
    if (thread_index() == 0) {
      mbarrier_arrive(barrier(0));
      if (!broken) mbarrier_wait(barrier(1), phase & 1);
    } else if (thread_index() == 32) {
      if (broken && phase > 0) continue;
      mbarrier_wait(barrier(0), phase & 1);
      mbarrier_arrive(barrier(1));
    }
  }
}

// The consumer does not flip its parity, so it waits for phase 0 a second time.
void parity_not_flipped(float*, bool broken) {
  ready({1, 1});
  for (int phase = 0; phase < 2; ++phase) {
    if (thread_index() == 0) {
      mbarrier_wait(barrier(1), (phase & 1) ^ 1);
      mbarrier_arrive(barrier(0));
    } else if (thread_index() == 32) {
      mbarrier_wait(barrier(0), broken ? 0 : phase & 1);
      if (phase == 0) mbarrier_arrive(barrier(1));
    }
  }
}

// Passes the number of a phase instead of its last bit.
void phase_for_parity(float*, bool broken) {
  ready({1});
  if (thread_index() == 0) {
    for (int phase = 0; phase < 3; ++phase) {
      mbarrier_arrive(barrier(0));
      mbarrier_wait(barrier(0), broken ? phase : phase & 1);
    }
  }
}

// A consumer that starts with the producer's parity passes immediately.
void consumer_starts_with_parity_1(float*, bool broken) {
  ready({1});
  if (thread_index() == 0) mbarrier_arrive(barrier(0));
  if (thread_index() == 32) mbarrier_wait(barrier(0), broken ? 1 : 0);
}

TEST_CASE("wait_wrong_phase") {
  twins({runs_ahead, parity_not_flipped}, "wait_wrong_phase");
  CHECK(twins(phase_for_parity, "wait_wrong_phase").find("waits for parity 2") !=
        std::string::npos);
  twins(consumer_starts_with_parity_1, "wait_wrong_phase");
}

// A thread may wait again for a phase that it knows, or learn about phases from another thread.
void waits_again(float* out, bool) {
  ready({1});
  if (thread_index() == 0) {
    store_shared<float>(word(0), 1.0f);
    mbarrier_arrive(barrier(0));
  }
  for (int i = 0; i < 3; ++i) mbarrier_wait(barrier(0), 0);
  block_sync();
  if (thread_index() == 0) mbarrier_arrive(barrier(0));
  if (thread_index() < 32) mbarrier_wait(barrier(0), 1);
  block_sync();
  if (thread_index() == 0) mbarrier_arrive(barrier(0));
  mbarrier_wait(barrier(0), 0);  // phase 2, although most threads have not waited for phase 1
  store_global(out + thread_index(), load_shared<float>(word(0)));
}

TEST_CASE("waits that are right") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config{.schedule_seed = seed};
    const Report report = run_kernel(waits_again, config, false);
    CHECK(texts(report) == "");
  }
}

void used_before_init(float*, bool broken) {
  init(0, 1);
  if (!broken) block_sync();
  if (thread_index() == 0) mbarrier_arrive(barrier(0));
  if (thread_index() == 32) mbarrier_wait(barrier(0), 0);
}

void never_initialized(float*, bool broken) {
  ready({1});
  if (thread_index() == 0) mbarrier_arrive(barrier(broken ? 1 : 0));
}

void used_after_inval(float*, bool broken) {
  init(0, 1);
  if (thread_index() != 0) return;
  mbarrier_inval(barrier(0));
  if (broken) mbarrier_arrive(barrier(0));
}

void tile_over_an_mbarrier(float*, bool broken) {
  ready({1});
  if (thread_index() != 0) return;
  store_shared<float>(broken ? barrier(0) + 4 : word(0), 1.0f);
  mbarrier_arrive(barrier(0));
}

void initialized_twice(float*, bool broken) {
  init(0, 1);
  if (thread_index() == 0 && !broken) mbarrier_inval(barrier(0));
  init(0, 2);
}

void misaligned_mbarrier(float*, bool broken) {
  if (thread_index() == 0) mbarrier_init(barrier(0) + (broken ? 4 : 0), 1);
}

void mbarrier_behind_the_end(float*, bool broken) {
  if (thread_index() == 0) mbarrier_init(dynamic_smem() + kSmem - (broken ? 0 : 8), 1);
}

TEST_CASE("mbarriers that are not there") {
  const std::string text = twins(used_before_init, "uninitialized_read");
  CHECK(text.find("the mbarrier at byte 0, and no mbarrier_init is ordered before") !=
        std::string::npos);
  twins({never_initialized, used_after_inval}, "uninitialized_read");
  twins({tile_over_an_mbarrier, initialized_twice}, "write_write");
  twins(misaligned_mbarrier, "misaligned");
  twins(mbarrier_behind_the_end, "out_of_bounds");
}

TEST_CASE("a kernel without one of its mbarrier instructions") {
  const auto run = [](const std::string& site, uint64_t seed) {
    Buffer<float> out(kThreads, "out");
    Config config{.schedule_seed = seed};
    if (!site.empty()) config.leave_out = {{.site = site}};
    return fa::simt::run(config, [&] { launch(ring, 1, kThreads, kSmem, out.data(), false); });
  };
  const Report intact = run("", 0);
  int left_out = 0;
  for (const fa::simt::Synchronization& sync : intact.synchronizations) {
    if (sync.instruction == "fence_mbarrier_init") continue;  // only tensor copies need it
    ++left_out;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(sync.instruction);
      CAPTURE(sync.where.line);
      CHECK(kinds(run(to_string(sync.where), seed)) != "");
    }
  }
  CHECK(left_out == 7);  // init, block_sync, 2 waits, 2 arrivals, warp_sync
}

}  // namespace
