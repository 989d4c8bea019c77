// Distributes the blocks of a launch over the CPU's cores and combines their results.

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/error.hpp"
#include "common/parallel.hpp"
#include "common/simt/block.hpp"
#include "common/simt/cluster.hpp"
#include "common/simt/device.hpp"
#include "common/simt/overflow.hpp"
#include "common/simt/shuffle.hpp"
#include "common/simt/simt.hpp"

namespace fa::simt {

namespace {

// The limits of sm_90, the largest of the cards that the course targets.
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kMaxBlockZ = 64;
constexpr int kMaxGridYZ = 65535;
constexpr size_t kMaxSharedBytes = 227 * 1024;
constexpr int kMaxBlocksPerCluster = 8;  // every sm_90 card supports this many

struct Run {
  Config config;
  Counters counters;
  HazardLog hazards;
  std::vector<Event> events;
  std::vector<TileRow> tiles;
  std::map<std::pair<std::string, int>, LineCounters> lines = {};
  std::map<std::tuple<std::string, int, std::string>, Synchronization> synchronizations = {};
};

thread_local Run* active = nullptr;  // run of the host thread that called run()

std::string to_string(const Dim3& size) {
  return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " + std::to_string(size.z);
}

int64_t volume(const Dim3& size) { return int64_t{size.x} * size.y * size.z; }

void check_launch(const LaunchConfig& config) {
  const Dim3 &grid = config.grid, &block = config.block;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1) {
    throw InputError("a grid of " + to_string(grid) + " blocks: each dimension must be at least 1");
  }
  if (grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    throw InputError("a grid of " + to_string(grid) + " blocks: y and z can be at most 65535");
  }
  if (volume(grid) > std::numeric_limits<int>::max()) {
    throw InputError("a grid of " + to_string(grid) +
                     " blocks: the emulator supports at most 2147483647");
  }
  if (block.x < 1 || block.y < 1 || block.z < 1 || block.x > kMaxThreadsPerBlock ||
      block.y > kMaxThreadsPerBlock || block.z > kMaxBlockZ ||
      volume(block) > kMaxThreadsPerBlock) {
    throw InputError("a block of " + to_string(block) +
                     " threads: 1 to 1024 are possible, and at most 64 in z");
  }
  if (config.smem_bytes > kMaxSharedBytes) {
    throw InputError("a block with " + std::to_string(config.smem_bytes) +
                     " bytes of shared memory: an H200 has 232448 per block, an A100 166912");
  }
  const Dim3& cluster = config.cluster;
  if (cluster.x < 1 || cluster.y < 1 || cluster.z < 1 || cluster.x > kMaxBlocksPerCluster ||
      cluster.y > kMaxBlocksPerCluster || cluster.z > kMaxBlocksPerCluster ||
      volume(cluster) > kMaxBlocksPerCluster) {
    throw InputError("clusters of " + to_string(cluster) + " blocks: 1 to 8 are possible");
  }
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    throw InputError("a grid of " + to_string(grid) + " blocks in clusters of " +
                     to_string(cluster) + ": each dimension must be a multiple of the cluster's");
  }
}

// Returns the order in which clusters start. A GPU starts blocks approximately in order, and
// kernels rely on that, because a block may wait for one with a lower number. Therefore no cluster
// starts much too early.
std::vector<int> cluster_order(int clusters, int blocks_each, uint64_t seed) {
  const int most = 64 / blocks_each;
  std::vector<int> order;
  std::mt19937_64 random(seed);
  for (int first = 0; first < clusters; first += most) {
    std::vector<int> window(static_cast<size_t>(std::min(most, clusters - first)));
    std::iota(window.begin(), window.end(), first);
    if (seed != 0) shuffle(window, random);
    order.insert(order.end(), window.begin(), window.end());
  }
  return order;
}

// Distributes clusters over CPU threads. Without clusters, each block is a cluster. A CPU thread
// runs one cluster after another. A cluster that only polls, because it waits for another block's
// write, is set aside and checked again before the next one starts.
class Workers {
 public:
  Workers(const Launch& launch, const std::vector<int>& order, int threads)
      : launch_(launch), order_(order), shares_(static_cast<size_t>(threads)) {}

  void work(size_t worker) {
    const LoopWatch watch;
    Share& share = shares_[worker];
    ++active_;
    try {
      run(share);
    } catch (...) {
      failed_ = true;
      leave(share);
      throw;
    }
    leave(share);
  }

  template <class F>
  void for_each_block(F f) {
    for (const Share& share : shares_) {
      for (const std::unique_ptr<Cluster>& cluster : share.all) {
        for (const std::unique_ptr<Block>& block : cluster->blocks()) f(*block);
      }
    }
  }

 private:
  // Number of loads without any progress after which no progress is expected.
#ifdef FA_SIMT_TSAN
  static constexpr int64_t kMostPolls = 100'000;  // the thread sanitizer makes everything fifty
                                                  // times slower
#else
  static constexpr int64_t kMostPolls = 4'000'000;
#endif

  struct Share {  // the clusters of one CPU thread
    std::vector<std::unique_ptr<Cluster>> all;
    std::vector<Cluster*> free, polling;
    bool idle = false;  // all of them poll, and none is left to start
  };

  void run(Share& share) {
    int64_t polls = 0;
    uint64_t moves = launch_.idle.moves;
    while (!failed_) {
      for (size_t i = share.polling.size(); i-- > 0;) {
        Cluster* const cluster = share.polling[i];
        const int64_t before = cluster->idle_polls();
        if (cluster->go_on() == Block::State::kFinished) {
          share.polling.erase(share.polling.begin() + static_cast<ptrdiff_t>(i));
          share.free.push_back(cluster);
        } else {
          polls += std::max<int64_t>(cluster->idle_polls() - before, 0);
        }
      }
      if (begin_next(share)) continue;
      if (share.polling.empty()) return;
      if (!share.idle) {
        share.idle = true;
        ++launch_.idle.moves;  // makes the other threads check what it did last
        ++launch_.idle.workers;
      }
      const bool all_idle = launch_.idle.workers == active_;  // read before `moves`: see leave
      if (const uint64_t now = launch_.idle.moves; now != moves) {
        moves = now;
        polls = 0;
      }
      if (polls >= kMostPolls && all_idle) {
        for (Cluster* cluster : share.polling) cluster->give_up_polling();
        share.polling.clear();
        return;
      }
      std::this_thread::yield();
    }
  }

  bool begin_next(Share& share) {
    if (next_ >= order_.size() || (share.free.empty() && !add_cluster(share))) return false;
    const size_t next = next_++;
    if (next >= order_.size()) return false;
    Cluster* const cluster = share.free.back();
    share.free.pop_back();
    const bool finished = cluster->start(order_[next]) == Block::State::kFinished;
    (finished ? share.free : share.polling).push_back(cluster);
    return true;
  }

  // Returns false if the system has no memory for more stacks, but other clusters can run on
  // theirs.
  bool add_cluster(Share& share) {
    const std::lock_guard lock(adding_);
    try {
      share.all.push_back(std::make_unique<Cluster>(launch_, share.idle));
    } catch (const std::bad_alloc&) {
      if (clusters_made_ > 0) return false;
      throw std::runtime_error("the system has no memory for the stacks of " +
                               std::to_string(launch_.threads * volume(launch_.config.cluster)) +
                               " threads: see ulimit -v and sysctl vm.max_map_count");
    }
    ++clusters_made_;
    share.free.push_back(share.all.back().get());
    return true;
  }

  void leave(Share& share) {
    for (Cluster* cluster : share.polling) cluster->stop();
    ++launch_.idle.moves;
    if (share.idle) --launch_.idle.workers;
    --active_;
  }

  const Launch& launch_;
  const std::vector<int>& order_;
  std::vector<Share> shares_;
  std::atomic<size_t> next_{0};
  std::atomic<int> active_{0};
  std::mutex adding_;
  int clusters_made_ = 0;
  std::atomic<bool> failed_{false};
};

void launch_in(Run& run, const std::function<void()>& thread, const LaunchConfig& config) {
  const GlobalMemory global = GlobalMemory::snapshot();
  Idle idle;
  GlobalClocks clocks;
  std::vector<BlockLog> logs;
  const Launch launch{thread,
                      config,
                      static_cast<int>(volume(config.block)),
                      static_cast<uint32_t>(config.smem_bytes),
                      run.config,
                      global,
                      idle,
                      clocks,
                      volume(config.grid) > 1};
  const auto blocks_each = static_cast<int>(volume(config.cluster));
  const auto clusters = static_cast<int>(volume(config.grid) / blocks_each);
  const std::vector<int> order = cluster_order(clusters, blocks_each, run.config.schedule_seed);
  const int threads =
      std::min(run.config.threads > 0 ? run.config.threads : hardware_threads(), clusters);
  Workers workers(launch, order, threads);
  parallel_for(threads, threads, [&](int64_t i, int) { workers.work(static_cast<size_t>(i)); });
  workers.for_each_block([&](Block& block) {
    run.counters += block.traffic().counters();
    run.hazards.merge(block.hazards());
    std::move(block.global_logs().begin(), block.global_logs().end(), std::back_inserter(logs));
    for (const SyncSite& site : block.sync_sites()) {
      Synchronization sync = site.what;
      sync.where.file = relative_path(sync.where.file);
      run.synchronizations.try_emplace({sync.where.file, sync.where.line, sync.instruction}, sync);
    }
    for (const auto& [place, counted] : block.traffic().lines()) {
      LineCounters& line = run.lines[place];
      line.where = counted.where;
      line.shared_wavefronts += counted.shared_wavefronts;
      line.shared_wavefronts_ideal += counted.shared_wavefronts_ideal;
      line.global_sectors += counted.global_sectors;
      line.global_sectors_ideal += counted.global_sectors_ideal;
    }
    std::vector<Event>& events = block.traffic().events();
    run.events.insert(run.events.end(), events.begin(), events.end());
    std::vector<TileRow>& tiles = block.traffic().tiles();
    std::move(tiles.begin(), tiles.end(), std::back_inserter(run.tiles));
  });
  find_global_races(logs, run.hazards);
  std::stable_sort(run.events.begin(), run.events.end(),
                   [](const Event& a, const Event& b) { return a.block < b.block; });
  std::stable_sort(run.tiles.begin(), run.tiles.end(),
                   [](const TileRow& a, const TileRow& b) { return a.block < b.block; });
  run.counters.shared_bytes_per_block =
      std::max(run.counters.shared_bytes_per_block, static_cast<int64_t>(config.smem_bytes));
}

}  // namespace

Counters& Counters::operator+=(const Counters& other) {
  const int64_t shared = std::max(shared_bytes_per_block, other.shared_bytes_per_block);
  for (const CounterField& field : kCounterFields) this->*field.value += other.*field.value;
  shared_bytes_per_block = shared;
  tma_bytes_outside += other.tma_bytes_outside;
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
  Run state{config, {}, {}, {}, {}, {}};
  struct Scope {
    explicit Scope(Run* run) { active = run; }
    ~Scope() { active = nullptr; }
  } scope(&state);
  body();
  for (Event& event : state.events) event.where.file = relative_path(event.where.file);
  Report report{state.counters, state.hazards.hazards(), std::move(state.events), {}, {}, {}};
  report.tiles = std::move(state.tiles);
  for (auto& [place, line] : state.lines) {
    line.where.file = relative_path(line.where.file);
    report.lines.push_back(line);
  }
  for (auto& [place, sync] : state.synchronizations) {
    report.synchronizations.push_back(std::move(sync));
  }
  return report;
}

}  // namespace fa::simt

namespace emulator::detail {

void launch(const std::function<void()>& thread, const LaunchConfig& config) {
  using namespace fa::simt;
  if (running_thread != nullptr) throw std::logic_error("a kernel cannot launch another one");
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
