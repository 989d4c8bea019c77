#pragma once
// Runs the threads of one block on one CPU thread, one fiber per CUDA thread.
//
// A lane runs until it must wait. Then it hands over to the next ready lane of its warp, or to
// another warp. At a warp-wide instruction, the lane that arrives last executes it for all 32 lanes
// and continues, while the others find their results when they are scheduled again. Warps meet in
// the same way at barriers and in warpgroups. A lane can also wait alone (park) until another lane
// wakes it. The warps of several blocks meet at cluster_sync (cluster.hpp).

#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/launch_config.hpp"
#include "common/simt/global_log.hpp"
#include "common/simt/global_memory.hpp"
#include "common/simt/global_shadow.hpp"
#include "common/simt/hazard_log.hpp"
#include "common/simt/mbarrier.hpp"
#include "common/simt/shadow.hpp"
#include "common/simt/simt.hpp"
#include "common/simt/thread.hpp"
#include "common/simt/traffic.hpp"
#include "common/simt/warpgroup.hpp"

namespace fa::simt {

/// The system uses the first bytes of the shared window, so the kernel's addresses start after
/// them.
inline constexpr uint32_t kSharedBase = 1024;

/// Barriers per block, numbered as on hardware. block_sync is number 0.
inline constexpr int kNumBarriers = 16;

/// Tells whether any block of a launch makes progress. All CPU threads of the launch share it.
struct Idle {
  std::atomic<int> workers{0};     // CPU threads whose blocks all poll
  std::atomic<uint64_t> moves{0};  // number of changes between polling and progress
};

struct Launch {
  const std::function<void()>& thread;  // body of each CUDA thread
  const LaunchConfig& config;
  int threads;  // per block
  uint32_t smem_bytes;
  const Config& run;
  const GlobalMemory& global;
  Idle& idle;
  GlobalClocks& clocks;
  bool many_blocks;  // more than one block, so that blocks could race
};

/// Returns the coordinates of place number `index` in a box of `size`, where x varies fastest.
inline Dim3 place_of(int index, const Dim3& size) {
  return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

/// The CUDA thread that is running on this CPU thread. A block's fibers never move to another CPU
/// thread, so thread-local variables are safe to use.
extern constinit thread_local Thread* running_thread;

class Cluster;

class Block {
 public:
  enum class State {
    kFinished,
    kWaiting,  // no thread can continue, unless cluster_sync wakes some
    kPolling,  // every thread waits, or polls memory that does not change, so others must run
  };

  /// `idle` says whether the CPU thread that runs this block is counted in launch.idle.
  Block(const Launch& launch, Cluster& cluster, bool& idle);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Prepares to run block `index` of the launch, which is block `rank` of its cluster.
  void begin(int index, int rank);
  /// Runs the block until it has finished, waits or only polls. Requires can_go_on(). Rethrows what
  /// a kernel thread threw.
  State go_on();
  State state() const { return state_; }
  bool can_go_on() const;
  void stop();  // unwinds the threads of a block that polls or waits
  /// Ends the block from a signal handler, after the running `thread` has overflowed its stack or
  /// has looped for `ms` milliseconds.
  [[noreturn]] void end_by_overflow(Thread& thread);
  [[noreturn]] void end_by_loop(Thread& thread, int ms);
  const StackPool& stacks() const { return *stacks_; }

  /// Ends a block that polls, because no thread will change what it reads. `others` is appended to
  /// the report.
  void give_up_polling(const std::string& others);
  /// Ends a block that waits, because no thread will wake it. Reports a deadlock, unless the block
  /// only waits for others of its cluster.
  void give_up_waiting(const std::string& others);
  int64_t idle_polls() const { return idle_polls_; }

  int index() const { return index_; }  // in the grid, x fastest
  const Dim3& place() const { return place_; }
  int rank() const { return rank_; }  // in the cluster, x fastest
  Block* in_cluster(int rank) const;  // the block with this rank; nullptr: there is none
  const Launch& launch() const { return launch_; }
  unsigned char* shared() { return shared_.data(); }
  Shadow& shadow() { return shadow_; }
  HazardLog& hazards() { return hazards_; }
  Traffic& traffic() { return traffic_; }
  Mbarriers& mbarriers() { return mbarriers_; }
  /// Returns the warpgroup of `thread`. Throws if the block ends with an incomplete group of four
  /// warps and `thread` is in it.
  Warpgroup& warpgroup(const Thread& thread, Instruction instruction);

  /// Counts the next instruction of `thread`, which is running.
  void begin_instruction(Thread& thread, const Site& site) {
    if (++step_of(thread) >= most_steps_) [[unlikely]]
      out_of_steps(thread, site);
  }

  /// The running `thread` arrives at a warp-wide instruction with its operands stored. Returns true
  /// for the last lane of the warp, which must execute the instruction for all of them. Returns
  /// false to the other lanes, after it has been executed.
  bool meet(Thread& thread, Instruction instruction, const Site& site) {
    Warp& warp = *thread.warp;
    if (warp.arrived == 0) {
      begin_meeting(thread, instruction, site);
    } else if (warp.meeting != instruction || !same_site(warp.site, site)) [[unlikely]] {
      diverge(thread, instruction, site);
    }
    if (++warp.arrived < warp.lanes) {
      warp.ready &= ~(1u << thread.position);
      pass_on(thread);
      return false;
    }
    complete_meeting(thread);
    return true;
  }

  /// The same for the lanes of `mask` that have not returned. They may come from different lines,
  /// except to a block barrier. Returns the participating lanes to the one thread that has to
  /// execute the instruction for all, and 0 to the others. With mask 0, the lanes take part that
  /// have arrived when no lane of the warp can continue.
  uint32_t meet_lanes(Thread& thread, Instruction instruction, uint32_t mask, const Site& site);
  /// Block barrier `barrier` as CUDA has it, where threads that have returned count as arrived.
  /// Returns the number of the other threads whose `predicate` is true.
  int sync_cuda(Thread& thread, Instruction instruction, int barrier, int expected, bool predicate,
                const Site& site);

  /// Like meet(), for the four warps of a warpgroup, the first of which is a multiple of four.
  bool meet_warpgroup(Thread& thread, Instruction instruction, const Site& site);

  /// Returns a new row of the vector clocks, for work that runs asynchronously to the threads
  /// (clock.hpp).
  int new_engine() { return static_cast<int>(warps_.size()) + engines_++; }
  /// Returns the first and last of the warps that wait for each other when they execute a wgmma
  /// with `warp`.
  std::pair<int, int> converged_warps(int warp) const;

  /// For setmaxnreg, the four warps of a warpgroup release registers, or wait until enough are
  /// free.
  void set_registers(Thread& thread, Instruction instruction, int registers, const Site& site);

  /// Lets all lanes of the thread's warp arrive at a barrier of `expected` threads. They wait
  /// there, unless the instruction only arrives. Accesses of arriving warps before it are ordered
  /// before later accesses of waiting warps.
  void sync(Thread& thread, Instruction instruction, int barrier, int expected, const Site& site);

  /// Like sync(), for all threads of the cluster that have not returned.
  void sync_cluster(Thread& thread, const Site& site);
  // Cluster calls these when a warp has arrived at cluster_sync or returned.
  bool all_at_cluster_sync() const;
  void release_to_cluster(Foreign& known) const;
  void open_cluster_sync(const std::shared_ptr<const Foreign>& known);
  // For the report of a deadlock.
  bool waits_at_cluster_sync_only() const;
  std::string place_at_cluster_sync() const;

  /// Suspends this thread until another one wakes it. A report of a deadlock prints `wait`.
  void park(Thread& thread, const Wait& wait);
  void wake(Thread& thread);

  /// Returns what this thread has done and knows, for other threads to acquire.
  Clock release(Thread& thread);
  void acquire(Thread& thread, const Clock& released);
  /// Like release() and acquire(), between blocks.
  std::shared_ptr<const Foreign> release_to_others(Thread& thread);
  void acquire_from_others(Thread& thread, const std::shared_ptr<const Foreign>& released);
  void sync_warp(Warp& warp);  // gives all lanes what each of them knows

  /// Records the value that a load of `thread` returned. A thread that keeps loading unchanged
  /// values is polling, so it hands over to other threads.
  void note_load(Thread& thread, uint64_t address, uint64_t value, const Site& site) {
    Poll& poll = thread.poll;
    const bool repeats = (address == poll.addresses[0] && value == poll.values[0]) ||
                         (address == poll.addresses[1] && value == poll.values[1]);
    if (!repeats) {
      poll.addresses[1] = poll.addresses[0];
      poll.values[1] = poll.values[0];
      poll.addresses[0] = address;
      poll.values[0] = value;
      poll.repeats = poll.alone = 0;
      poll.step = step_of(thread);
      note_progress();
      return;
    }
    if (step_of(thread) != ++poll.step) {
      poll.step = step_of(thread);
      poll.alone = 0;
    }
    ++poll.alone;
    if (++poll.repeats % kPollsATurn == 0) {
      poll.site = site;
      take_turns_polling(thread);
    }
  }
  /// True if `thread` does nothing but poll `address`. Such loads are not counted, because their
  /// number depends on timing on a GPU.
  static bool polls(const Thread& thread, uint64_t address) {
    const Poll& poll = thread.poll;
    return poll.alone >= kPollsATurn && step_of(thread) == poll.step + 1 &&
           (address == poll.addresses[0] || address == poll.addresses[1]);
  }
  void note_progress() {  // called for anything that another thread may be polling for
    if (idle_polls_ != 0) [[unlikely]]
      moves_again();
  }

  /// Returns the warp instruction that this lane's access belongs to, or nullptr if nothing is
  /// counted.
  WarpAccess* join_load(Thread& thread, Instruction instruction, const Site& site, int bytes,
                        uint64_t address) {
    if (!traffic_.wanted()) return joined_ = nullptr;
    return joined_ = polls(thread, address) ? nullptr : join(thread, instruction, site, bytes);
  }
  WarpAccess* join(Thread& thread, Instruction instruction, const Site& site, int bytes) {
    return joined_ = traffic_.wanted() ? join_counted(thread, instruction, site, bytes) : nullptr;
  }
  WarpAccess* join_counted(Thread& thread, Instruction instruction, const Site& site, int bytes) {
    AccessCollector& accesses = thread.warp->accesses;
    if (accesses.complete()) finish_accesses(*thread.warp);
    if (accesses.far_ahead(thread.lane)) let_lanes_catch_up(thread);
    return &accesses.join(thread.lane, instruction, site, bytes);
  }
  /// Returns the warp instruction that the running thread has just joined, if the thread is its
  /// first lane; nullptr otherwise, or if nothing is counted. The first lane adds what becomes
  /// known later.
  WarpAccess* speaks_for(const Thread& thread) const {
    const bool first = joined_ != nullptr && std::countr_zero(joined_->lanes) == thread.lane;
    return first ? joined_ : nullptr;
  }

  /// Logs an access to global memory, because another block may access the same bytes, and checks
  /// it against the copies of this block. In a CUDA file, also checks it against the accesses of
  /// other threads of this block. `keeps`: a store that leaves the bytes as they are.
  void note_global(const Thread& thread, GlobalUse use, const Site& site, const void* p,
                   size_t bytes, bool keeps = false) {
    check_async_global(thread, use, site, p, bytes);
    if (!launch_.run.hazards) return;
    if (launch_.run.cuda_rules && launch_.threads > 1) {
      global_shadow_.access(thread, use, site, reinterpret_cast<uint64_t>(p),
                            static_cast<uint32_t>(bytes), keeps);
    }
    if (!launch_.many_blocks) return;
    const Clock& clock = clock_of(thread);
    global_log_.add(use, site, thread.index, thread.warp->time, clock.foreign,
                    reinterpret_cast<uint64_t>(p), static_cast<uint32_t>(bytes));
  }
  /// The same for an async access by a tensor copy or bulk_reduce_add, which `thread` issues and
  /// `engine` completes at `time`. Only knowledge of that time orders later accesses after it.
  void note_async_global(const Thread& thread, GlobalUse use, const Site& site, int engine,
                         uint32_t time, const void* p, size_t bytes);
  /// Reports an access of `thread` to bytes that an earlier async access of this block uses, if
  /// `thread` knows that it was issued and not that it has completed.
  void check_async_global(const Thread& thread, GlobalUse use, const Site& site, const void* p,
                          size_t bytes) {
    const auto begin = reinterpret_cast<uint64_t>(p);
    const auto overlap = [&](const AsyncUses& uses) {
      return begin < uses.end && begin + bytes > uses.begin;
    };
    if (overlap(async_writes_)) [[unlikely]]
      find_async_global(async_writes_, thread, use, site, begin, begin + bytes);
    if (use != GlobalUse::kRead && overlap(async_reads_)) [[unlikely]]
      find_async_global(async_reads_, thread, use, site, begin, begin + bytes);
  }
  /// A read of this block's shared memory by a copy to another block.
  struct CopyOut {
    int engine;
    uint32_t time;  // of the engine
    int thread;     // that issued it
    Site site;
  };
  void note_copy_out(const CopyOut& copy) { copies_out_.push_back(copy); }
  /// All threads of the block have arrived at a barrier.
  void note_barrier() {
    if (!launch_.run.hazards) return;
    if (!copies_out_.empty()) forget_ended_copies();
    shadow_.barrier();
    global_shadow_.barrier();
  }
  std::vector<BlockLog>& global_logs() { return global_logs_; }

  /// In a cluster of a CUDA file, any block may access the shared memory of this one. Both log
  /// their accesses with addresses that no memory has.
  uint64_t shared_key(uint32_t offset) const {
    return kSharedKeys | static_cast<uint64_t>(index_) << kRankShift | offset;
  }
  void note_shared(const Thread& thread, GlobalUse use, const Site& site, const Block& owner,
                   uint32_t offset, uint32_t bytes) {
    if (!shares_memory_) return;
    const Clock& clock = clock_of(thread);
    global_log_.add(use, site, thread.index, thread.warp->time, clock.foreign,
                    owner.shared_key(offset), bytes);
  }
  /// Returns what `thread` knows about the block with this index, or nullptr.
  static const Clock* knowledge_of(const Thread& thread, int block);
  /// Returns what `thread` of another block of the cluster has done and knows, for threads of this
  /// block to acquire.
  Clock release_from(Thread& thread);

  /// Returns the barrier or wait at this place of the source.
  const SyncSite& sync_site(Instruction instruction, const Site& site, const char* label) {
    for (const SyncSite& known : sync_sites_) {
      if (known.what.where.line == site.line && known.what.where.file == site.file &&
          known.instruction == instruction) {
        return known;
      }
    }
    return add_sync_site(instruction, site, label);
  }
  const std::deque<SyncSite>& sync_sites() const { return sync_sites_; }

  bool global_ok(uint64_t address, size_t bytes, const Site& site) {
    return launch_.global.contains(address, bytes, global_hints_[site.line % kGlobalHints]);
  }
  /// Reports the hazard and ends the block, because its threads would continue with invalid data.
  [[noreturn]] void give_up(HazardKind kind, Thread& thread, const Site& site,
                            const std::function<std::string()>& what);
  /// Reports a bad access (out_of_bounds, misaligned) of `thread`. `what` completes "thread 5 …".
  void report(HazardKind kind, const Thread& thread, const Site& site, uint64_t address,
              const std::function<std::string()>& what);

 private:
  static constexpr uint32_t kPollsATurn = 64;

  struct Unwind {};  // thrown through the stack of a thread that must stop

  struct Barrier {
    int expected = 0, arrived = 0;  // in threads
    uint32_t waiting = 0;           // bit i: warp i
    Clock clock;                    // joined clocks of the arriving warps
    Site first, last;               // lowest and highest source line of the arrivals
    int votes = 0;                  // threads whose condition is true
    bool vote = false;              // barrier_red_or: true if any thread's condition is
  };
  struct Meeting {  // four warps of a warpgroup at one instruction
    Instruction meeting{};
    Site site;
    int arrived = 0;           // warps that have arrived
    int registers = 0;         // per thread
    int wanted_registers = 0;  // registers per thread that it is waiting for
  };

  const SyncSite& add_sync_site(Instruction instruction, const Site& site, const char* label);
  static void thread_main(transfer_t from);
  void begin_meeting(Thread& thread, Instruction instruction, const Site& site);
  void complete_meeting(Thread& thread);
  void finish_accesses(Warp& warp);
  void let_lanes_catch_up(Thread& thread);
  [[noreturn]] void out_of_steps(Thread& thread, const Site& site);
  void begin_barrier(Thread& thread, const Site& site);
  void arrive_at(Thread& thread, Instruction instruction, int number, int expected,
                 const Site& site);
  int returned_threads() const;  // threads of warps that have returned
  uint32_t complete_lanes(Thread& thread, size_t meeting);
  void lane_has_returned(Thread& thread);
  void release_converged(Warp& warp);
  Clock clock_at_cluster_sync() const;  // joined clocks of all waiting warps
  void complete(Barrier& barrier);
  State run_from(Thread* thread);
  void finish();
  void note_end();
  void moves_again();

  // schedule.cpp chooses the next lane.
  void prepare_schedule();
  // Returns the first of `lanes` (not 0) at position `from` or later, and wraps around at the end.
  static Thread* ready_lane(const Warp& warp, uint32_t lanes, int from) {
    const uint32_t behind = lanes & (~0u << from);
    return &warp.first[warp.order[std::countr_zero(behind != 0 ? behind : lanes)]];
  }
  Warp* pick_warp();
  Thread* pick_thread(Thread& last);
  void maybe_change_warp(Thread& thread);
  void take_turns_polling(Thread& thread);
  void pass_on(Thread& thread) {
    const uint32_t behind = thread.warp->ready & ~thread.warp->polling;
    Thread* next = behind != 0 ? ready_lane(*thread.warp, behind, thread.position) : nullptr;
    if (next == nullptr) next = pick_thread(thread);
    next != nullptr ? hand_over(thread, *next) : leave(thread);
  }
  void hand_over(Thread& from, Thread& to) {
    if (&from == &to) return;
    running_thread = &to;
    switch_fiber(from.fiber, to.fiber);
    if (aborting_) throw Unwind();
  }
  void leave(Thread& thread);  // to the CPU thread, because no CUDA thread can continue
  void park_warp(Thread& last, const Wait& wait);
  void wake_warp(Warp& warp);

  // divergence.cpp reports threads that do not meet where they should.
  [[noreturn]] void diverge(Thread& thread, Instruction instruction, const Site& site);
  void report_stuck(HazardKind kind, const Thread& thread, Site place, Site other,
                    const std::string& text);
  void report_early_return(const Thread& thread);
  void report_nobody_can_run(const std::string& others);
  void report_leftovers();
  [[noreturn]] void abandon(Thread& thread);  // makes the CPU thread unwind all fibers
  void unwind();
  [[noreturn]] void end_from_signal(Thread& thread, const std::string& what);

  const Launch& launch_;
  Cluster& cluster_;
  bool& idle_;
  const bool shares_memory_;
  int index_ = 0, rank_ = 0;
  Dim3 place_;
  uint32_t most_steps_ = 0;
  std::unique_ptr<StackPool> stacks_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned char> shared_;
  HazardLog hazards_;
  Shadow shadow_;
  Traffic traffic_;
  struct AsyncGlobal {
    uint64_t begin, end;
    GlobalUse use;
    int engine, thread;
    uint32_t time, issue_time;  // clocks of the engine and the thread's warp
    Site site;
  };
  struct AsyncUses {
    std::vector<AsyncGlobal> all;
    uint64_t begin = std::numeric_limits<uint64_t>::max(), end = 0;  // lowest begin, highest end

    void clear() {  // keeps the vector's memory
      all.clear();
      begin = std::numeric_limits<uint64_t>::max();
      end = 0;
    }
  };
  void find_async_global(const AsyncUses& uses, const Thread& thread, GlobalUse use,
                         const Site& site, uint64_t begin, uint64_t end);

  BlockLog global_log_;
  GlobalShadow global_shadow_{hazards_};
  void forget_ended_copies();
  std::vector<CopyOut> copies_out_;       // of which this block may not know that they have ended
  AsyncUses async_reads_, async_writes_;  // apart, because reads do not have to be ordered
  std::vector<BlockLog> global_logs_;     // logs of finished blocks
  std::deque<SyncSite> sync_sites_;       // places that any block on this CPU thread has reached
  Barrier barriers_[kNumBarriers];
  uint32_t at_cluster_sync_ = 0;   // bit i: warp i waits there
  Site parted_, parted_too_;       // first two different places at which warps met in one
                                   // block_sync
  std::vector<Meeting> meetings_;  // one per warpgroup
  std::vector<std::unique_ptr<Warpgroup>> warpgroups_;
  Mbarriers mbarriers_;
  int engines_ = 0;
  int free_registers_ = 0;                // counted per thread of a warpgroup, as in setmaxnreg
  Fiber main_;                            // the CPU thread's own stack
  Thread* last_ = nullptr;                // the last thread that ran before none could continue
  static constexpr int kGlobalHints = 8;  // a line usually accesses one buffer
  size_t global_hints_[kGlobalHints] = {};
  WarpAccess* joined_ = nullptr;
  int64_t idle_polls_ = 0;  // polling loads since the last progress
  State state_ = State::kFinished;
  bool polling_ = false;  // `last_` polls, and so does every other thread that does not wait
  bool aborting_ = false;
  std::exception_ptr error_;
  std::mt19937_64 random_;
  std::vector<int> warp_order_;
  uint32_t change_warp_every_ = 0;  // average number of instructions between switches; 0: switch
                                    // only at barriers
};

/// True if `a` comes before `b` in the source.
bool comes_before(const Site& a, const Site& b);

[[noreturn]] void fail_outside_kernel();
/// Returns the CUDA thread that is running on this CPU thread. Throws std::logic_error outside
/// kernels.
inline Thread& current_thread() {
  if (running_thread == nullptr) fail_outside_kernel();
  return *running_thread;
}

}  // namespace fa::simt
