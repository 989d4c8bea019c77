// Clusters are blocks that run together and synchronize at cluster_sync. Only cluster_sync orders
// their accesses to global memory, and blocks of different clusters never synchronize.

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "common/error.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/hopper.hpp"
#include "common/simt/simt.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::kinds;
using fa::simt::Report;
using fa::simt::texts;

constexpr int kGrid = 8, kThreads = 64, kSmem = kThreads * 4;
#ifdef FA_SIMT_TSAN
constexpr uint64_t kSeeds = 3;      // everything is fifty times slower with the thread sanitizer
constexpr int kLargestBlock = 256;  // it supports 8128 fibers at a time
#else
constexpr uint64_t kSeeds = 20;
constexpr int kLargestBlock = 1024;
#endif

struct Memory {
  Buffer<float> x{kGrid * kThreads, "x"}, y{kGrid * kThreads, "y"};
  Buffer<int> flag{kGrid, "flag"};
};

using Kernel = void (*)(float* x, float* y, int* flag, bool broken);

Report run_kernel(Kernel kernel, Memory& memory, const Config& config, bool broken,
                  int cluster = 2) {
  return fa::simt::run(config, [&] {
    launch(kernel, {.grid = kGrid, .block = kThreads, .smem_bytes = kSmem, .cluster = cluster},
           memory.x.data(), memory.y.data(), memory.flag.data(), broken);
  });
}

// Runs under several schedules, each on one CPU thread and on three.
std::string check_twins(Kernel kernel, const std::string& expected, int cluster = 2,
                        int64_t max_steps = Config{}.max_steps) {
  std::string said;
  for (const int threads : {1, 3}) {
    const std::string now = fa::simt::check_twins(
        [=](Config config, bool broken) {
          Memory memory;
          config.threads = threads;
          config.max_steps = max_steps;
          return run_kernel(kernel, memory, config, broken, cluster);
        },
        expected, kSeeds);
    if (said.empty()) said = now;
    CHECK(now == said);
  }
  return said;
}

int own(int block) { return block * kThreads + thread_index(); }
int partner() { return block_index() ^ 1; }
uint32_t word(int i) { return dynamic_smem() + static_cast<uint32_t>(i) * 4; }

void exchange(float* x, float* y, int*, bool broken) {
  store_global(x + own(block_index()), static_cast<float>(own(block_index())));
  if (!broken) cluster_sync("x is written");
  store_global(y + own(block_index()), load_global(x + own(partner())));
}

// The second iteration overwrites what the partner has read in the first.
void two_rounds(float* x, float* y, int*, bool broken) {
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    store_global(x + own(block_index()), static_cast<float>(block_index() + round));
    cluster_sync();
    sum += load_global(x + own(partner()));
    if (!broken) cluster_sync();
  }
  store_global(y + own(block_index()), sum);
}

TEST_CASE("cluster_sync orders what the blocks of a cluster do in global memory") {
  const std::string text = check_twins(exchange, "global_race");
  CHECK(text.find("block 0 writes x[0], which block 1 reads at ") != std::string::npos);
  check_twins(two_rounds, "global_race");
  check_twins(exchange, "global_race", 8);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Config config{.schedule_seed = seed};
    Memory memory;
    run_kernel(exchange, memory, config, false);
    for (int i = 0; i < kGrid * kThreads; ++i) {
      CHECK(memory.y[static_cast<size_t>(i)] == static_cast<float>(i ^ kThreads));
    }
    run_kernel(two_rounds, memory, config, false);
    for (int i = 0; i < kGrid * kThreads; ++i) {
      CHECK(memory.y[static_cast<size_t>(i)] == static_cast<float>(2 * (i / kThreads ^ 1) + 1));
    }
  }
}

void with_another_cluster(float* x, float* y, int*, bool broken) {
  const int distance = broken ? cluster_size() : 1;
  store_global(x + own(block_index()), 1.0f);
  cluster_sync();
  store_global(y + own(block_index()), load_global(x + own(block_index() ^ distance)));
}

TEST_CASE("it does not order one cluster with another") {
  check_twins(with_another_cluster, "global_race");
  check_twins(with_another_cluster, "global_race", 4);
}

// Block 0 sets a flag for the next cluster, whose barrier passes on what its first block has
// learned.
void knowledge_is_passed_on(float* x, float* y, int* flag, bool broken) {
  const int t = thread_index(), cluster = block_index() / 2;
  if (cluster > 1) return;
  if (cluster == 0) {
    store_global(x + own(block_index()), 1.0f);
    cluster_sync();
    if (block_index() == 1 && t == 0) store_release(flag, 1);
    return;
  }
  if (block_index() == 2 && t == 0) {
    while (load_acquire(flag) == 0) {
    }
  }
  if (!broken) cluster_sync();
  if (block_index() == 3) store_global(y + t, load_global(x + t));
}

TEST_CASE("what a block has learned through a flag, its cluster knows too") {
  check_twins(knowledge_is_passed_on, "global_race");
}

void reverse(float*, float* y, int*, bool broken) {
  const int t = thread_index();
  store_shared<float>(word(t), static_cast<float>(t));
  if (!broken) cluster_sync();
  store_global(y + own(block_index()), load_shared<float>(word(kThreads - 1 - t)));
}

TEST_CASE("it orders shared memory within each block; without clusters, too") {
  for (const int cluster : {1, 2}) {
    check_twins(reverse, "read_before_barrier", cluster);
    Memory memory;
    CHECK(texts(run_kernel(reverse, memory, {}, false, cluster)) == "");
    for (size_t i = 0; i < memory.y.size(); ++i) {
      CHECK(memory.y[i] == static_cast<float>(kThreads - 1 - static_cast<int>(i) % kThreads));
    }
  }
}

// The cluster does not wait for threads that have returned, be it a block or a warp of a block.
void returns_early(float* x, float* y, int*, bool) {
  const int t = thread_index();
  if (block_index() % 4 == 1 || (block_index() % 4 == 2 && t >= 32)) return;
  store_global(x + own(block_index()), 1.0f);
  cluster_sync();
  if (t < 32) store_global(y + own(block_index()), load_global(x + own(block_index() / 4 * 4)));
  if (block_index() % 4 == 3 && t >= 32) return;
  cluster_sync();
}

// But their accesses are not ordered either.
void returns_after_a_store(float* x, float* y, int*, bool broken) {
  if (block_index() % 2 == 1) {
    store_global(x + own(block_index()), 1.0f);
    if (broken) return;
  }
  cluster_sync();
  if (block_index() % 2 == 0) store_global(y + own(block_index()), load_global(x + own(partner())));
}

void warp_returns_after_a_store(float*, float* y, int*, bool broken) {
  const int t = thread_index();
  store_shared<float>(word(t), 1.0f);
  if (broken && t >= 32) return;
  cluster_sync();
  if (t < 32) store_global(y + own(block_index()), load_shared<float>(word(t + 32)));
}

TEST_CASE("threads that have returned are not waited for") {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Config config{.schedule_seed = seed};
    Memory memory;
    CHECK(texts(run_kernel(returns_early, memory, config, false, 4)) == "");
    for (const int block : {0, 2, 3, 4, 6, 7}) {
      CHECK(memory.y[static_cast<size_t>(block * kThreads + 31)] == 1.0f);
    }
  }
  check_twins(returns_after_a_store, "global_race");
  check_twins(warp_returns_after_a_store, "read_before_barrier");
}

void one_block_waits_elsewhere(float*, float*, int*, bool broken) {
  if (broken && block_index() == 3) {
    if (thread_index() == 0) mbarrier_init(dynamic_smem(), 1);
    block_sync();
    mbarrier_wait(dynamic_smem(), 0);
  }
  cluster_sync();
}

void one_warp_waits_elsewhere(float*, float*, int*, bool broken) {
  if (broken && block_index() == 6 && thread_index() < 32) {
    block_sync();
  }
  cluster_sync();
}

void one_block_looks_elsewhere(float*, float*, int* flag, bool broken) {
  if (block_index() == 2 && thread_index() == 0 && !broken) store_release(flag, 1);
  if (block_index() == 3 && thread_index() == 0) {
    while (load_acquire(flag) == 0) {
    }
  }
  cluster_sync();
}

// The flag is set after a barrier that needs the thread that waits for the flag.
void flag_behind_the_barrier(float*, float*, int* flag, bool broken) {
  if (block_index() == 2) {
    if (broken) cluster_sync();
    if (thread_index() == 0) store_release(flag, 1);
    if (!broken) cluster_sync();
  }
  if (block_index() == 3) {
    if (thread_index() == 0) {
      while (load_acquire(flag) == 0) {
      }
    }
    cluster_sync();
  }
}

TEST_CASE("deadlock: which threads wait where") {
  const std::string elsewhere = check_twins(one_block_waits_elsewhere, "deadlock");
  CHECK(elsewhere.find(
            "no thread can continue: 64 threads (thread 0 first) wait at mbarrier_wait (") !=
        std::string::npos);
  CHECK(elsewhere.find("; block 2 of its cluster waits at cluster_sync (") != std::string::npos);
  const std::string warp = check_twins(one_warp_waits_elsewhere, "deadlock", 4);
  CHECK(warp.find("warp 0 waits at block_sync (") != std::string::npos);
  CHECK(warp.find("where 32 of 64 threads have arrived; warp 1 waits at cluster_sync (") !=
        std::string::npos);
  CHECK(warp.find("; 3 blocks of its cluster (block 4 first) wait at cluster_sync (") !=
        std::string::npos);
  for (const Kernel kernel : {one_block_looks_elsewhere, flag_behind_the_barrier}) {
    for (const uint64_t seed : {0, 3}) {
      Config config{.schedule_seed = seed, .threads = 2};
      Memory memory, intact;
      const Report report = run_kernel(kernel, memory, config, true);
      CHECK(kinds(report) == "deadlock");
      CHECK(texts(report).find("thread 0 of block 3 keeps polling memory that no thread "
                               "will change; block 2 of its cluster waits at cluster_sync (") !=
            std::string::npos);
      CHECK(texts(run_kernel(kernel, intact, config, false)) == "");
    }
  }
  // Without clusters, it is like a deadlock between two barriers of a block.
  CHECK(check_twins(one_warp_waits_elsewhere, "deadlock", 1).find("of its cluster") ==
        std::string::npos);
}

void lanes_at_two_places(float*, float*, int*, bool broken) {
  if (broken && block_index() == 5 && thread_index() == 7) {
    cluster_sync();
  } else {
    cluster_sync();
  }
}

void a_lane_returns(float*, float*, int*, bool broken) {
  if (broken && block_index() == 5 && thread_index() == 7) return;
  cluster_sync();
}

void warps_at_two_places(float* x, float* y, int* flag, bool) {
  if (thread_index() < 32) {
    exchange(x, y, flag, false);
  } else {
    cluster_sync();
  }
}

TEST_CASE("the lanes of a warp come to the same cluster_sync; warps need not") {
  check_twins(lanes_at_two_places, "barrier_divergence");
  check_twins(a_lane_returns, "barrier_divergence");
  Memory memory;
  CHECK(texts(run_kernel(warps_at_two_places, memory, {}, false)) == "");
}

void for_ever(float*, float*, int*, bool broken) {
  for (int i = 0; broken || i < 10; ++i) cluster_sync();
}

TEST_CASE("a cluster that does not come to an end is ended") {
  check_twins(for_ever, "deadlock", 2, 1000);
}

TEST_CASE("leave_out: by place and by label; all warps but one") {
  Memory memory;
  const Report intact = run_kernel(exchange, memory, {}, false);
  REQUIRE(intact.synchronizations.size() == 1);
  CHECK(intact.synchronizations[0].instruction == "cluster_sync");
  CHECK(intact.synchronizations[0].label == "x is written");
  for (const std::string& name :
       {std::string("x is written"), to_string(intact.synchronizations[0].where)}) {
    Config config{.leave_out = {{.site = name}}};
    const Report report = run_kernel(exchange, memory, config, false);
    CHECK(kinds(report) == "global_race");
    CHECK(report.synchronizations[0].left_out);
    config.leave_out[0].except_warp = 1;
    CHECK(kinds(run_kernel(exchange, memory, config, false)) == "global_race");
  }
}

TEST_CASE("counters and events: one for each warp, and an estimate") {
  Memory memory;
  Config config{.events = true, .event_blocks = kGrid};
  const Report report = run_kernel(two_rounds, memory, config, false);
  CHECK(report.counters.barriers == int64_t{kGrid} * 2 * 4);
  CHECK(is_estimate(report.counters, "barriers"));
  int events = 0;
  for (const fa::simt::Event& event : report.events) {
    if (event.kind != fa::simt::EventKind::kClusterSync) continue;
    ++events;
    CHECK(event.barrier == -1);
    CHECK(std::string(event_name(event.kind)) == "cluster_sync");
  }
  CHECK(events == report.counters.barriers);
}

void say_rank(int* ranks, int* sizes) {
  const Dim3 block = block_index_3d(), grid = grid_size();
  const int number = (block.z * grid.y + block.y) * grid.x + block.x;
  store_global(ranks + number, cluster_rank());
  store_global(sizes + number, cluster_size());
}

TEST_CASE("ranks and sizes: x fastest, in up to three dimensions") {
  constexpr Dim3 kGrid3{4, 6, 2};
  for (const Dim3 cluster :
       {Dim3{}, Dim3{2}, Dim3{2, 3}, Dim3{1, 2}, Dim3{4, 1, 2}, Dim3{2, 2, 2}}) {
    Buffer<int> ranks(48, "ranks"), sizes(48, "sizes");
    const Report report = fa::simt::run({}, [&] {
      launch(say_rank, {.grid = kGrid3, .block = 1, .cluster = cluster}, ranks.data(),
             sizes.data());
    });
    CHECK(texts(report) == "");
    for (int i = 0; i < 48; ++i) {
      const int x = i % 4 % cluster.x, y = i / 4 % 6 % cluster.y, z = i / 24 % cluster.z;
      CHECK(ranks[static_cast<size_t>(i)] == (z * cluster.y + y) * cluster.x + x);
      CHECK(sizes[static_cast<size_t>(i)] == cluster.x * cluster.y * cluster.z);
    }
  }
}

// Each block sends its rank to the next block of its cluster.
void around(int* x, int* y) {
  const Dim3 block = block_index_3d(), grid = grid_size();
  const int row = block.y * grid.x, next = block.x / 2 * 2 + (block.x + 1) % 2;
  const int other_row = (block.y / 2 * 2 + (block.y + 1) % 2) * grid.x;
  if (thread_index() == 0) store_global(x + row + block.x, cluster_rank() + 10 * block.x);
  cluster_sync();
  if (thread_index() == 32) store_global(y + row + block.x, load_global(x + other_row + next));
}

TEST_CASE("many clusters over several CPU threads") {
  constexpr int kWidth = 40, kHeight = 20;
  Buffer<int> x(kWidth * kHeight, "x"), y(kWidth * kHeight, "y");
  for (const int threads : {1, 2, 4}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      for (int& each : y) each = -1;
      Config config{.schedule_seed = seed, .threads = threads};
      const Report report = fa::simt::run(config, [&] {
        launch(around, {.grid = {kWidth, kHeight}, .block = 64, .cluster = {2, 2}}, x.data(),
               y.data());
      });
      CHECK(texts(report) == "");
      for (int i = 0; i < kWidth * kHeight; ++i) {
        const int column = i % kWidth ^ 1, row = i / kWidth ^ 1;
        CHECK(y[static_cast<size_t>(i)] == row % 2 * 2 + column % 2 + 10 * column);
      }
    }
  }
}

// Counts the threads that have begun, and those that have not ended.
struct Alive {
  int begun = 0, left = 0;
};
struct Life {
  Alive& alive;
  explicit Life(Alive& counts) : alive(counts) { ++alive.begun, ++alive.left; }
  ~Life() { --alive.left; }
};

void throws(Alive* alive, int bad_block) {
  const Life life(*alive);
  if (block_index() == bad_block && thread_index() == 40) throw std::runtime_error("TODO");
  cluster_sync();
  block_sync();
}

TEST_CASE("an exception in one block unwinds the others of its cluster") {
  int waited = 0;  // launches in which another block had reached cluster_sync before
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const int bad_block : {0, 2, 3, -1}) {
      Config config{.schedule_seed = seed, .threads = 1};
      Alive alive;
      const auto run = [&] {
        fa::simt::run(config, [&] {
          launch(throws, {.grid = 4, .block = kThreads, .cluster = 4}, &alive, bad_block);
        });
      };
      if (bad_block < 0) {
        CHECK_NOTHROW(run());
        CHECK(alive.begun == 4 * kThreads);
      } else {
        CHECK_THROWS_WITH_AS(run(), "TODO", std::runtime_error);
        waited += alive.begun > kThreads;
      }
      CHECK(alive.left == 0);
    }
  }
  CHECK(waited > 8);
}

TEST_CASE("without hazards a deadlock is an exception") {
  Config config{.hazards = false};
  Memory memory;
  CHECK_THROWS_WITH_AS(run_kernel(one_block_waits_elsewhere, memory, config, true),
                       doctest::Contains("deadlock: no thread can continue"), std::runtime_error);
  run_kernel(exchange, memory, config, false);
  CHECK(memory.y[0] == static_cast<float>(kThreads));
}

void nothing() {}

TEST_CASE("clusters that no GPU runs") {
  const auto refused = [](const Dim3& grid, const Dim3& cluster, const char* why) {
    CHECK_THROWS_WITH_AS(launch(nothing, {.grid = grid, .block = 1, .cluster = cluster}),
                         doctest::Contains(why), fa::InputError);
  };
  refused(8, 0, "clusters of 0 x 1 x 1 blocks: 1 to 8 are possible");
  refused(8, {-1, -1}, "1 to 8");
  refused(32, 16, "clusters of 16 x 1 x 1 blocks: 1 to 8 are possible");
  refused({8, 8, 8}, {2, 2, 3}, "1 to 8");
  refused(8, {1 << 30, 1 << 30, 16}, "1 to 8");
  refused(7, 2, "a grid of 7 x 1 x 1 blocks in clusters of 2 x 1 x 1");
  refused({8, 3}, {2, 2}, "each dimension must be a multiple");
  refused({8, 2}, {2, 1, 2}, "each dimension must be a multiple");
  CHECK_NOTHROW(launch(nothing, {.grid = {2, 4, 3}, .block = 1, .cluster = {2, 4}}));
  CHECK_NOTHROW(launch(nothing, {.grid = 8, .block = kLargestBlock, .cluster = 8}));
}

}  // namespace
