// Launches and runs: blocks over the cores, and what they found added up.

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "common/error.hpp"
#include "common/parallel.hpp"
#include "common/simt/block.hpp"
#include "common/simt/device.hpp"
#include "common/simt/shuffle.hpp"
#include "common/simt/simt.hpp"

namespace fa::simt {

namespace {

// The limits of sm_90, the largest that the tutorial targets.
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kMaxBlockZ = 64;
constexpr int kMaxGridYZ = 65535;
constexpr size_t kMaxSharedBytes = 227 * 1024;

struct Run {
  Config config;
  Counters counters;
  HazardLog hazards;
  std::vector<Event> events;
  std::map<std::tuple<std::string, int, std::string>, Synchronization> synchronizations = {};
};

thread_local Run* active = nullptr;  // of the host thread that called run()

std::string to_string(const Dim3& size) {
  return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " + std::to_string(size.z);
}

int64_t volume(const Dim3& size) { return int64_t{size.x} * size.y * size.z; }

void check_launch(const LaunchConfig& config) {
  const Dim3 &grid = config.grid, &block = config.block;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1) {
    throw InputError("a grid of " + to_string(grid) + " blocks: at least 1 in each dimension");
  }
  if (grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    throw InputError("a grid of " + to_string(grid) + " blocks: at most 65535 in y and in z");
  }
  if (volume(grid) > std::numeric_limits<int>::max()) {
    throw InputError("a grid of " + to_string(grid) + " blocks: the emulator numbers 2147483647");
  }
  if (block.x < 1 || block.y < 1 || block.z < 1 || block.x > kMaxThreadsPerBlock ||
      block.y > kMaxThreadsPerBlock || block.z > kMaxBlockZ ||
      volume(block) > kMaxThreadsPerBlock) {
    throw InputError("a block of " + to_string(block) +
                     " threads: 1 to 1024 are possible, 64 of them in z");
  }
  if (config.smem_bytes > kMaxSharedBytes) {
    throw InputError("a block with " + std::to_string(config.smem_bytes) +
                     " bytes of shared memory: an H200 has 232448 for each block, an A100 166912");
  }
  if (config.cluster != Dim3{}) {
    throw InputError("clusters of " + to_string(config.cluster) +
                     " blocks: the emulator has none yet");
  }
}

std::vector<int> block_order(int grid, uint64_t seed) {
  std::vector<int> order(static_cast<size_t>(grid));
  std::iota(order.begin(), order.end(), 0);
  if (seed != 0) {
    std::mt19937_64 random(seed);
    shuffle(order, random);
  }
  return order;
}

void launch_in(Run& run, const std::function<void()>& thread, const LaunchConfig& config) {
  const GlobalMemory global = GlobalMemory::snapshot();
  const Launch launch{thread,
                      config,
                      static_cast<int>(volume(config.block)),
                      static_cast<uint32_t>(config.smem_bytes),
                      run.config,
                      global};
  const auto grid = static_cast<int>(volume(config.grid));
  const std::vector<int> order = block_order(grid, run.config.schedule_seed);
  const int threads =
      std::min(run.config.threads > 0 ? run.config.threads : hardware_threads(), grid);
  std::vector<std::unique_ptr<Block>> workers(static_cast<size_t>(threads));
  parallel_for(grid, threads, [&](int64_t i, int worker) {
    std::unique_ptr<Block>& mine = workers[static_cast<size_t>(worker)];
    if (!mine) mine = std::make_unique<Block>(launch);
    mine->run(order[static_cast<size_t>(i)]);
  });
  for (const std::unique_ptr<Block>& worker : workers) {
    if (!worker) continue;
    run.counters += worker->traffic().counters();
    run.hazards.merge(worker->hazards());
    for (const SyncSite& site : worker->sync_sites()) {
      Synchronization sync = site.what;
      sync.where.file = relative_path(sync.where.file);
      run.synchronizations.try_emplace({sync.where.file, sync.where.line, sync.instruction}, sync);
    }
    std::vector<Event>& events = worker->traffic().events();
    run.events.insert(run.events.end(), events.begin(), events.end());
  }
  std::stable_sort(run.events.begin(), run.events.end(),
                   [](const Event& a, const Event& b) { return a.block < b.block; });
  run.counters.shared_bytes_per_block =
      std::max(run.counters.shared_bytes_per_block, static_cast<int64_t>(config.smem_bytes));
}

}  // namespace

Counters& Counters::operator+=(const Counters& other) {
  const int64_t shared = std::max(shared_bytes_per_block, other.shared_bytes_per_block);
  for (const CounterField& field : kCounterFields) this->*field.value += other.*field.value;
  shared_bytes_per_block = shared;
  estimates |= other.estimates;
  return *this;
}

bool is_estimate(const Counters& counters, const std::string& name) {
  uint32_t bit = 1;
  for (const CounterField& field : kCounterFields) {
    if (name == field.name) return (counters.estimates & bit) != 0;
    bit <<= 1;
  }
  return false;
}

Report run(const Config& config, const std::function<void()>& body) {
  if (active != nullptr) throw std::logic_error("fa::simt::run inside fa::simt::run");
  Run state{config, {}, {}, {}, {}};
  struct Scope {
    explicit Scope(Run* run) { active = run; }
    ~Scope() { active = nullptr; }
  } scope(&state);
  body();
  for (Event& event : state.events) event.where.file = relative_path(event.where.file);
  Report report{state.counters, state.hazards.hazards(), std::move(state.events), {}};
  for (auto& [place, sync] : state.synchronizations) {
    report.synchronizations.push_back(std::move(sync));
  }
  return report;
}

}  // namespace fa::simt

namespace emulator::detail {

void launch(const std::function<void()>& thread, const LaunchConfig& config) {
  using namespace fa::simt;
  check_launch(config);
  if (active != nullptr) {
    launch_in(*active, thread, config);
    return;
  }
  Run alone;
  launch_in(alone, thread, config);
  if (!alone.hazards.empty()) throw std::runtime_error(alone.hazards.hazards().front().text);
}

}  // namespace emulator::detail
