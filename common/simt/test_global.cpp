// Races, atomics and flags in global memory that blocks share. The result must not depend on the
// order of blocks or on the number of CPU threads.

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "common/simt/fiber.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::HazardKind;
using fa::simt::Report;

constexpr int kGrid = 6;
constexpr int kThreads = 64;

struct Memory {
  Buffer<float> x{kGrid * kThreads, "x"};
  Buffer<float> sum{kThreads, "sum"};
  Buffer<int> flag{kGrid, "flag"};
};

using Kernel = void (*)(float* x, float* sum, int* flag, bool broken);

Report run_kernel(Kernel kernel, Memory& memory, bool broken, uint64_t seed, int threads) {
  Config config{.schedule_seed = seed, .threads = threads};
  return fa::simt::run(config, [&] {
    launch(kernel, kGrid, kThreads, 0, memory.x.data(), memory.sum.data(), memory.flag.data(),
           broken);
  });
}

// Runs the twins under several schedules and numbers of CPU threads, which must report the same
// lines.
void check_twins(Kernel kernel, const std::string& expected) {
  std::string first;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const int threads : {1, 3}) {
      CAPTURE(seed);
      CAPTURE(threads);
      Memory wrong, right;
      const Report report = run_kernel(kernel, wrong, true, seed, threads);
      CHECK(kinds(report) == expected);
      std::string findings;
      for (const fa::simt::Hazard& hazard : report.hazards) findings += hazard.text + "\n";
      if (first.empty()) first = findings;
      CHECK(findings == first);
      const Report intact = run_kernel(kernel, right, false, seed, threads);
      CHECK_MESSAGE(intact.hazards.empty(), (intact.hazards.empty() ? "" : intact.hazards[0].text));
    }
  }
}

void writes_the_neighbours_part(float* x, float*, int*, bool broken) {
  const int i = block_index() * kThreads + thread_index();
  const bool too_far = broken && thread_index() == kThreads - 1 && block_index() < kGrid - 1;
  store_global(x + (too_far ? i + 1 : i), 1.0f);
}

void reads_what_the_next_block_writes(float* x, float* sum, int*, bool broken) {
  const int i = block_index() * kThreads + thread_index();
  store_global(x + i, 1.0f);
  if (block_index() == 2 && !broken) store_global(sum + thread_index(), load_global(x + i));
  if (block_index() == 2 && broken) {
    store_global(sum + thread_index(), load_global(x + i + kThreads));
  }
}

// Each block adds to the same sums.
void adds(float* x, float* sum, int*, bool broken) {
  const int t = thread_index();
  const float value = static_cast<float>(block_index() + 1);
  if (broken) {
    store_global(sum + t, load_global(sum + t) + value);
  } else {
    atomic_add(sum + t, value);
  }
  store_global(x + block_index() * kThreads + t, value);
}

void clears_and_adds(float*, float* sum, int*, bool broken) {
  if (broken && block_index() == 0) store_global(sum + thread_index(), 0.0f);
  atomic_add(sum + thread_index(), 1.0f);
}

TEST_CASE("global_race: two blocks at the same bytes") {
  check_twins(writes_the_neighbours_part, "global_race");
  check_twins(reads_what_the_next_block_writes, "global_race");
  check_twins(adds, "global_race");
  check_twins(clears_and_adds, "global_race");
  Memory memory;
  const Report report = run_kernel(reads_what_the_next_block_writes, memory, true, 3, 2);
  REQUIRE(report.hazards.size() == 1);
  const fa::simt::Hazard& hazard = report.hazards[0];
  CHECK(hazard.text.find("block 3 writes x[192], which block 2 reads at ") != std::string::npos);
  CHECK(hazard.block == 3);
  CHECK(hazard.count == 1);
  CHECK(hazard.other.line > hazard.where.line);
  Memory other;
  CHECK(run_kernel(writes_the_neighbours_part, other, true, 0, 1).hazards[0].count == kGrid);
}

TEST_CASE("atomic_add adds the values of all threads") {
  for (const int threads : {1, 4}) {
    Memory memory;
    run_kernel(adds, memory, false, 5, threads);
    for (float x : memory.sum) CHECK(x == 1 + 2 + 3 + 4 + 5 + 6);
  }
}

// A block waits for the previous block, adds, and lets the next one continue. The sum then has the
// same bits in every run. All these mistakes have been made in practice.
enum Mistake { kNone, kNoFlag, kPlainFlag, kNoBarrierBefore, kNoBarrierBehind, kNoFence };

template <Mistake kMistake>
void in_turn(float*, float* sum, int* flag, bool broken) {
  const Mistake mistake = broken ? kMistake : kNone;
  const int t = thread_index();
  if (t == 0 && mistake != kNoFlag) {
    if (mistake == kPlainFlag) {
      while (load_global(flag) != block_index()) {
      }
    } else {
      while (load_acquire(flag) != block_index()) {
      }
    }
  }
  if (mistake != kNoBarrierBefore) block_sync();
  store_global(sum + t, load_global(sum + t) * 0.5f + static_cast<float>(block_index()));
  if (mistake != kNoBarrierBehind) block_sync();
  if (t == 0) {
    if (mistake == kPlainFlag) {
      store_global(flag, block_index() + 1);
    } else if (mistake == kNoFence) {
      atomic_add(flag, 1);
    } else if (block_index() % 2 == 0) {
      store_release(flag, block_index() + 1);
    } else {
      thread_fence();
      atomic_add(flag, 1);
    }
  }
}

TEST_CASE("blocks in turn, by a flag") {
  float expected = 0;
  for (int block = 0; block < kGrid; ++block)
    expected = expected * 0.5f + static_cast<float>(block);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const int threads : {1, 2, 4}) {
      Memory memory;
      const Report report = run_kernel(in_turn<kNone>, memory, false, seed, threads);
      CHECK_MESSAGE(report.hazards.empty(), (report.hazards.empty() ? "" : report.hazards[0].text));
      for (float x : memory.sum) CHECK(x == expected);
    }
  }
  check_twins(in_turn<kNoFlag>, "global_race");
  check_twins(in_turn<kPlainFlag>, "global_race");
  check_twins(in_turn<kNoBarrierBefore>, "global_race");
  check_twins(in_turn<kNoBarrierBehind>, "global_race");
  check_twins(in_turn<kNoFence>, "global_race");
}

// Each block waits for all others. A counter tells which one arrives last.
void grid_barrier(float* x, float* sum, int* counter, bool broken) {
  const int t = thread_index();
  store_global(x + block_index() * kThreads + t, static_cast<float>(block_index()));
  block_sync();
  if (t == 0) {
    thread_fence();
    atomic_add(counter, 1);
    while (atomic_add(counter, 0) < kGrid) {
    }
    if (!broken) thread_fence();
  }
  block_sync();
  float total = 0;
  for (int block = 0; block < kGrid; ++block) total += load_global(x + block * kThreads + t);
  if (block_index() == 0) store_global(sum + t, total);
}

TEST_CASE("a barrier of the whole grid") {
  check_twins(grid_barrier, "global_race");
  Memory memory;
  run_kernel(grid_barrier, memory, false, 1, 2);
  for (float x : memory.sum) CHECK(x == 0 + 1 + 2 + 3 + 4 + 5);
}

void waits_for_nobody(float*, float* sum, int* flag, bool broken) {
  if (block_index() == 1 && thread_index() == 0) {
    while (load_acquire(flag) == 0) {
    }
  }
  if (block_index() == 4 && thread_index() == 0 && !broken) store_release(flag, 1);
  if (block_index() == 1) store_global(sum + thread_index(), 1.0f);
}

TEST_CASE("a flag that no thread sets") {
  for (const int threads : {1, 3}) {
    for (const uint64_t seed : {0, 5}) {
      Memory memory, intact;
      CHECK(run_kernel(waits_for_nobody, intact, false, seed, threads).hazards.empty());
      const Report report = run_kernel(waits_for_nobody, memory, true, seed, threads);
      CHECK(kinds(report) == "deadlock");
      CHECK(report.hazards[0].block == 1);
      CHECK(report.hazards[0].text.find("thread 0 of block 1 keeps polling") != std::string::npos);
    }
  }
}

TEST_CASE("the end of a launch orders everything") {
  Memory memory;
  const Report report = fa::simt::run({}, [&] {
    for (int i = 0; i < 2; ++i) {
      launch(writes_the_neighbours_part, kGrid, kThreads, 0, memory.x.data(), memory.sum.data(),
             memory.flag.data(), false);
      launch(
          +[](float* x) { store_global(x + (block_index() * 7 + 3), load_global(x)); }, 1, 1, 0,
          memory.x.data());
    }
  });
  CHECK(report.hazards.empty());
}

void out_of_bounds_atomics(float* x, float*, int* flag, bool broken) {
  if (!broken) return;
  atomic_add(x - 1, 1.0f);
  store_release(flag + kGrid, 1);
  CHECK(load_acquire(flag - 1) == -1);
}

TEST_CASE("atomics outside every buffer") {
  Memory memory;
  const Report report = run_kernel(out_of_bounds_atomics, memory, true, 0, 1);
  CHECK(kinds(report) == "out_of_bounds");
  CHECK(report.hazards.size() == 3);
}

void count_blocks(int* counter, float* racy) {
  if (racy == nullptr) atomic_add(counter, 1);
  if (racy != nullptr) store_global(racy, 1.0f);
}

TEST_CASE("many blocks at one address") {
  constexpr int kBlocks = 40'000;  // 800 million pairs
  Buffer<int> counter(1, "counter");
  CHECK_NOTHROW(launch(count_blocks, kBlocks, 1, 0, counter.data(), static_cast<float*>(nullptr)));
  CHECK(counter[0] == kBlocks);
  constexpr int kMost = 65'535;
  Buffer<float> x(1, "x");
  const Report report =
      fa::simt::run({}, [&] { launch(count_blocks, kMost, 1, 0, counter.data(), x.data()); });
  REQUIRE(report.hazards.size() == 1);
  CHECK(report.hazards[0].count == kMost);
}

#ifdef FA_SIMT_TSAN
constexpr int kKeys = 64;  // everything is fifty times slower with the thread sanitizer
#else
constexpr int kKeys = 512;
#endif

// A beginner's kernel has one thread per query, which reads everything from global memory.
void naive_attention(const float* Q, const float* K, const float* V, float* O, int len_kv,
                     int dim) {
  const int query = block_index() * block_size().x + thread_index();
  float m = -INFINITY, l = 0;
  float o[64] = {};
  for (int key = 0; key < len_kv; ++key) {
    float score = 0;
    for (int d = 0; d < dim; ++d) {
      score += load_global(Q + query * dim + d) * load_global(K + key * dim + d);
    }
    const float m_new = max(m, score), rescale = exp(m - m_new), p = exp(score - m_new);
    l = l * rescale + p;
    for (int d = 0; d < dim; ++d) o[d] = o[d] * rescale + p * load_global(V + key * dim + d);
    m = m_new;
  }
  for (int d = 0; d < dim; ++d) store_global(O + query * dim + d, o[d] / l);
}

TEST_CASE("a naive kernel of 128 x 512 x 64, with all checks") {
  constexpr int kQueries = 128, kDim = 64;
  Buffer<float> Q(kQueries * kDim, "Q"), K(kKeys * kDim, "K"), V(kKeys * kDim, "V");
  Buffer<float> O(kQueries * kDim, "O");
  for (size_t i = 0; i < Q.size(); ++i) Q[i] = static_cast<float>(i % 7) * 0.01f;
  for (size_t i = 0; i < K.size(); ++i) K[i] = static_cast<float>(i % 11) * 0.01f;
  for (float& v : V) v = 2.0f;
  const Report report = fa::simt::run({}, [&] {
    launch(naive_attention, 2, kQueries / 2, 0, static_cast<const float*>(Q.data()),
           static_cast<const float*>(K.data()), static_cast<const float*>(V.data()), O.data(),
           kKeys, kDim);
  });
  CHECK(report.hazards.empty());
  for (float o : O) CHECK(o == doctest::Approx(2.0f));
  // Lanes of a warp read the same K and V, one sector each. Rows of Q are 256 bytes apart.
  constexpr int kWarps = kQueries / 32;
  CHECK(report.counters.global_load_sectors == int64_t{kWarps} * kKeys * kDim * (32 + 1 + 1));
}

}  // namespace
