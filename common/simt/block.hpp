#pragma once
// Runs the threads of one block at a time, each a fiber, on one CPU thread.
//
// A lane runs until it reaches a warp-wide instruction or a barrier, and then hands over to the
// next lane of its warp. The lane that arrives last executes the instruction for all 32 and goes
// on; the others find their results when their turn comes. When all lanes of a warp wait at
// block_sync, another warp runs.

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/launch_config.hpp"
#include "common/simt/global_memory.hpp"
#include "common/simt/hazard_log.hpp"
#include "common/simt/shadow.hpp"
#include "common/simt/simt.hpp"
#include "common/simt/thread.hpp"
#include "common/simt/traffic.hpp"

namespace fa::simt {

/// The first bytes of the shared window belong to the system: addresses start behind them.
inline constexpr uint32_t kSharedBase = 1024;

struct Launch {
  const std::function<void()>& thread;  // what each thread runs
  const LaunchConfig& config;
  int threads;  // of a block
  uint32_t smem_bytes;
  const Config& run;
  const GlobalMemory& global;
};

/// Place number `index` of `size`, x fastest.
inline Dim3 place_of(int index, const Dim3& size) {
  return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

/// The thread whose kernel is running on this CPU thread. Fibers of a block never move to another
/// CPU thread, so that thread-local variables are theirs.
extern constinit thread_local Thread* running_thread;

class Block {
 public:
  explicit Block(const Launch& launch);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs block `index` to its end. Throws what a thread threw.
  void run(int index);

  int index() const { return index_; }  // its number, x fastest
  const Dim3& place() const { return place_; }
  const Launch& launch() const { return launch_; }
  unsigned char* shared() { return shared_.data(); }
  Shadow& shadow() { return shadow_; }
  HazardLog& hazards() { return hazards_; }
  Traffic& traffic() { return traffic_; }

  /// `thread` (running) has arrived at a collective, its operands stored. True: it is the last one
  /// of its warp and has to execute the instruction for all. False: that has been done.
  bool meet(Thread& thread, Collective collective, const Site& site) {
    Warp& warp = *thread.warp;
    if (warp.arrived == 0) {
      begin_collective(thread, collective, site);
    } else if (warp.collective != collective || !same_site(warp.site, site)) [[unlikely]] {
      diverge(thread, collective, site);
    }
    if (++warp.arrived < warp.lanes) {
      hand_over(thread, *thread.next);
      return false;
    }
    complete_collective(thread);
    return true;
  }

  void sync(Thread& thread, const Site& site);  // block_sync

  /// The warp instruction that this lane's access is part of, or nullptr if nobody counts.
  WarpAccess* join(Thread& thread, EventKind kind, const Site& site, int bytes) {
    if (!traffic_.wanted()) return nullptr;
    return &thread.warp->accesses.join(thread.lane, kind, site, bytes);
  }

  /// The barrier or wait at this place of the source.
  const SyncSite& sync_site(const char* instruction, const Site& site, const char* label) {
    for (const SyncSite& known : sync_sites_) {
      if (known.what.where.line == site.line && known.what.where.file == site.file &&
          known.what.instruction == instruction) {
        return known;
      }
    }
    return add_sync_site(instruction, site, label);
  }
  const std::deque<SyncSite>& sync_sites() const { return sync_sites_; }

  bool global_ok(uint64_t address, size_t bytes) {
    return launch_.global.contains(address, bytes, global_hint_);
  }
  /// Reports a bad access (out_of_bounds, misaligned) of `thread`; `what` goes on "thread 5 ".
  void report(HazardKind kind, const Thread& thread, const Site& site, uint64_t address,
              const std::function<std::string()>& what);

 private:
  struct Unwind {};  // thrown through a thread that must not go on

  const SyncSite& add_sync_site(const char* instruction, const Site& site, const char* label);
  static void thread_main(transfer_t from);
  void begin_collective(Thread& thread, Collective collective, const Site& site);
  void complete_collective(Thread& thread);
  void arrive_at_barrier(Thread& thread, const Site& site);
  void prepare_schedule();
  void hand_over(Thread& from, Thread& to) {
    running_thread = &to;
    switch_fiber(from.fiber, to.fiber);
    if (aborting_) throw Unwind();
  }
  void maybe_change_warp(Thread& thread);
  void finish_accesses(Warp& warp);
  Thread* next_after_exit(Thread& thread);
  Warp* pick_warp();
  [[noreturn]] void diverge(Thread& thread, Collective collective, const Site& site);
  void report_divergence(const Thread& thread, Site place, Site other, const std::string& text);
  void report_early_return(const Thread& thread);
  void report_missing_arrivals(const Thread& last);
  [[noreturn]] void abandon(Thread& thread);  // lets the CPU thread unwind all fibers
  void unwind();

  Launch launch_;
  int index_ = 0;
  Dim3 place_;
  std::unique_ptr<StackPool> stacks_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned char> shared_;
  HazardLog hazards_;
  Shadow shadow_;
  Traffic traffic_;
  std::deque<SyncSite> sync_sites_;  // that any block has reached on this CPU thread
  Fiber main_;                       // the CPU thread
  size_t global_hint_ = 0;
  int waiting_warps_ = 0;  // at the barrier
  bool aborting_ = false;
  std::exception_ptr error_;
  std::mt19937_64 random_;
  std::vector<int> warp_order_;
  uint32_t change_warp_every_ = 0;  // on average; 0: only when a warp waits at a barrier
};

[[noreturn]] void fail_outside_kernel();
/// The thread whose kernel is running on this CPU thread; throws std::logic_error outside kernels.
inline Thread& current_thread() {
  if (running_thread == nullptr) fail_outside_kernel();
  return *running_thread;
}

}  // namespace fa::simt
