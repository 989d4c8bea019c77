#pragma once
// Runs the threads of one block at a time, each a fiber, on one CPU thread.
//
// A lane runs until it must wait, and hands over to the next lane of its warp that is ready, or to
// another warp. At a warp-wide instruction the lane that arrives last executes it for all 32 and
// goes on; the others find their results when their turn comes. Whole warps meet in the same way,
// at barriers and in warpgroups. A lane can also wait alone (park), until another wakes it. Warps
// of several blocks meet at cluster_sync: cluster.hpp.

#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/launch_config.hpp"
#include "common/simt/global_log.hpp"
#include "common/simt/global_memory.hpp"
#include "common/simt/hazard_log.hpp"
#include "common/simt/mbarrier.hpp"
#include "common/simt/shadow.hpp"
#include "common/simt/simt.hpp"
#include "common/simt/thread.hpp"
#include "common/simt/traffic.hpp"
#include "common/simt/warpgroup.hpp"

namespace fa::simt {

/// The first bytes of the shared window belong to the system: addresses start behind them.
inline constexpr uint32_t kSharedBase = 1024;

/// Barriers of a block, as the hardware numbers them. block_sync is number 0.
inline constexpr int kNumBarriers = 16;

/// Is anybody doing anything? Shared by the CPU threads of a launch.
struct Idle {
  std::atomic<int> workers{0};     // CPU threads whose blocks all poll
  std::atomic<uint64_t> moves{0};  // how often one of them went on, or one more stopped
};

struct Launch {
  const std::function<void()>& thread;  // what each thread runs
  const LaunchConfig& config;
  int threads;  // of a block
  uint32_t smem_bytes;
  const Config& run;
  const GlobalMemory& global;
  Idle& idle;
  GlobalClocks& clocks;
  bool many_blocks;  // that could race
};

/// Place number `index` of `size`, x fastest.
inline Dim3 place_of(int index, const Dim3& size) {
  return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

/// The thread whose kernel is running on this CPU thread. Fibers of a block never move to another
/// CPU thread, so that thread-local variables are theirs.
extern constinit thread_local Thread* running_thread;

class Cluster;

class Block {
 public:
  enum class State {
    kFinished,
    kWaiting,  // nobody can go on; another block of the cluster may wake those at cluster_sync
    kPolling,  // all threads that do not wait look at memory that does not change: others must run
  };

  /// `idle`: is the CPU thread that runs it counted in launch.idle?
  Block(const Launch& launch, Cluster& cluster, bool& idle);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Makes it block `index` of the launch, which has not begun yet.
  void begin(int index, int rank);
  /// Runs it, if can_go_on(), until it has finished, waits or only polls. Throws what a thread
  /// threw.
  State go_on();
  State state() const { return state_; }
  bool can_go_on() const;
  void stop();  // unwinds the threads of a block that polls or waits
  /// Ends the block, from a signal handler: `thread` (running) has left its stack.
  [[noreturn]] void end_by_overflow(Thread& thread);
  [[noreturn]] void end_by_loop(Thread& thread, int ms);
  const StackPool& stacks() const { return *stacks_; }

  /// Ends a block that polls: nobody will ever change what it looks at. `others` ends the report.
  void give_up_polling(const std::string& others);
  /// Ends a block that waits: nobody will ever wake it. It says so, unless it only waits for others
  /// of its cluster.
  void give_up_waiting(const std::string& others);
  int64_t idle_polls() const { return idle_polls_; }

  int index() const { return index_; }  // its number, x fastest
  const Dim3& place() const { return place_; }
  int rank() const { return rank_; }  // in its cluster, x fastest
  const Launch& launch() const { return launch_; }
  unsigned char* shared() { return shared_.data(); }
  Shadow& shadow() { return shadow_; }
  HazardLog& hazards() { return hazards_; }
  Traffic& traffic() { return traffic_; }
  Mbarriers& mbarriers() { return mbarriers_; }
  /// The warpgroup that `thread` belongs to; throws for warps behind the last multiple of four.
  Warpgroup& warpgroup(const Thread& thread, Instruction instruction);

  /// `thread` (running) begins its next instruction.
  void begin_instruction(Thread& thread, const Site& site) {
    if (++step_of(thread) >= most_steps_) [[unlikely]]
      out_of_steps(thread, site);
  }

  /// `thread` (running) has arrived at a warp-wide instruction, its operands stored. True: it is
  /// the last one of its warp and has to execute the instruction for all. False: that has been
  /// done.
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

  /// The same for a warpgroup: four warps, the first a multiple of four, execute it together.
  bool meet_warpgroup(Thread& thread, Instruction instruction, const Site& site);

  /// A row of the clocks for what works beside the threads: see clock.hpp.
  int new_engine() { return static_cast<int>(warps_.size()) + engines_++; }
  /// Warps that execute wgmma together with this one wait for each other there: first and last.
  std::pair<int, int> converged_warps(int warp) const;

  /// All four warps of a warpgroup give up registers, or wait until they get some.
  void set_registers(Thread& thread, Instruction instruction, int registers, const Site& site);

  /// All lanes of thread's warp arrive at a barrier of `expected` threads, and wait there or go on.
  /// Orders what they did before what the warps that wait there do afterwards.
  void sync(Thread& thread, Instruction instruction, int barrier, int expected, const Site& site);

  /// The same at the barrier of the whole cluster, for all threads that have not returned.
  void sync_cluster(Thread& thread, const Site& site);
  // What Cluster asks, and does, when a warp has arrived there or returned.
  bool all_at_cluster_sync() const;
  void release_to_cluster(Foreign& known) const;
  void open_cluster_sync(const std::shared_ptr<const Foreign>& known);
  // For a deadlock's report.
  bool waits_at_cluster_sync_only() const;
  std::string place_at_cluster_sync() const;

  /// Waits alone until somebody wakes this thread; `wait` is for the report of a deadlock.
  void park(Thread& thread, const Wait& wait);
  void wake(Thread& thread);

  /// What a single thread has done so far, and knows, for others to learn; and learning it.
  Clock release(Thread& thread);
  void acquire(Thread& thread, const Clock& released);
  /// The same between blocks.
  std::shared_ptr<const Foreign> release_to_others(Thread& thread);
  void acquire_from_others(Thread& thread, const std::shared_ptr<const Foreign>& released);
  void sync_warp(Warp& warp);  // all its lanes know what each of them knows

  /// A load of `thread`. One that keeps looking at what does not change lets the others run.
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
  /// Does it do nothing but look there? Such loads are not counted: on a GPU, time decides how many
  /// they are.
  static bool polls(const Thread& thread, uint64_t address) {
    const Poll& poll = thread.poll;
    return poll.alone >= kPollsATurn && step_of(thread) == poll.step + 1 &&
           (address == poll.addresses[0] || address == poll.addresses[1]);
  }
  void note_progress() {  // something that others might be waiting for
    if (idle_polls_ != 0) [[unlikely]]
      moves_again();
  }

  /// The warp instruction that this lane's access is part of, or nullptr if nobody counts.
  WarpAccess* join_load(Thread& thread, Instruction instruction, const Site& site, int bytes,
                        uint64_t address) {
    return joined_ = polls(thread, address) ? nullptr : join(thread, instruction, site, bytes);
  }
  WarpAccess* join(Thread& thread, Instruction instruction, const Site& site, int bytes) {
    if (!traffic_.wanted()) return joined_ = nullptr;
    AccessCollector& accesses = thread.warp->accesses;
    if (accesses.complete()) finish_accesses(*thread.warp);
    if (accesses.far_ahead(thread.lane)) let_lanes_catch_up(thread);
    return joined_ = &accesses.join(thread.lane, instruction, site, bytes);
  }
  /// What the running thread has joined, for what is known of it later. It speaks for its warp if
  /// it is the first of those lanes; else, or if nobody counts: nullptr.
  WarpAccess* speaks_for(const Thread& thread) const {
    const bool first = joined_ != nullptr && std::countr_zero(joined_->lanes) == thread.lane;
    return first ? joined_ : nullptr;
  }

  /// An access to global memory: other blocks may be at the same bytes.
  void note_global(const Thread& thread, GlobalUse use, const Site& site, const void* p,
                   size_t bytes) {
    if (!launch_.many_blocks || !launch_.run.hazards) return;
    const Clock& clock = thread.clock != nullptr ? *thread.clock : thread.warp->clock;
    global_log_.add(use, site, thread.index, thread.warp->time, clock.foreign,
                    reinterpret_cast<uint64_t>(p), static_cast<uint32_t>(bytes));
  }
  std::vector<BlockLog>& global_logs() { return global_logs_; }

  /// The barrier or wait at this place of the source.
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

  bool global_ok(uint64_t address, size_t bytes) {
    return launch_.global.contains(address, bytes, global_hint_);
  }
  /// Ends the block, whose threads would go on with garbage.
  [[noreturn]] void give_up(HazardKind kind, Thread& thread, const Site& site,
                            const std::function<std::string()>& what);
  /// Reports a bad access (out_of_bounds, misaligned) of `thread`; `what` goes on "thread 5 ".
  void report(HazardKind kind, const Thread& thread, const Site& site, uint64_t address,
              const std::function<std::string()>& what);

 private:
  static constexpr uint32_t kPollsATurn = 64;

  struct Unwind {};  // thrown through a thread that must not go on

  struct Barrier {
    int expected = 0, arrived = 0;  // threads
    uint32_t waiting = 0;           // bit i: warp i
    Clock clock;                    // what those that arrived had done
    Site first, last;               // of the places from which they came, in the source
    bool vote = false;              // barrier_red_or: has anybody said yes?
  };
  struct Meeting {  // of the warps of a warpgroup
    Instruction meeting{};
    Site site;
    int arrived = 0;           // warps
    int registers = 0;         // of each thread
    int wanted_registers = 0;  // it waits for so many
  };

  const SyncSite& add_sync_site(Instruction instruction, const Site& site, const char* label);
  static void thread_main(transfer_t from);
  void begin_meeting(Thread& thread, Instruction instruction, const Site& site);
  void complete_meeting(Thread& thread);
  void finish_accesses(Warp& warp);
  void let_lanes_catch_up(Thread& thread);
  [[noreturn]] void out_of_steps(Thread& thread, const Site& site);
  void begin_barrier(Thread& thread, const Site& site);
  Clock clock_at_cluster_sync() const;  // of all who wait there
  void complete(Barrier& barrier);
  State run_from(Thread* thread);
  void finish();
  void moves_again();

  // schedule.cpp: who runs next.
  void prepare_schedule();
  // The first of `lanes` (not 0) at position `from` or behind it; behind the last comes the first.
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
  void leave(Thread& thread);  // to the CPU thread: nobody can go on
  void park_warp(Thread& last, const Wait& wait);
  void wake_warp(Warp& warp);

  // divergence.cpp: what to say when threads that should meet do not.
  [[noreturn]] void diverge(Thread& thread, Instruction instruction, const Site& site);
  void report_stuck(HazardKind kind, const Thread& thread, Site place, Site other,
                    const std::string& text);
  void report_early_return(const Thread& thread);
  void report_nobody_can_run(const std::string& others);
  void report_leftovers();
  [[noreturn]] void abandon(Thread& thread);  // lets the CPU thread unwind all fibers
  void unwind();
  [[noreturn]] void end_from_signal(Thread& thread, const std::string& what);

  const Launch& launch_;
  Cluster& cluster_;
  bool& idle_;
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
  BlockLog global_log_;
  std::vector<BlockLog> global_logs_;  // of the blocks that have finished
  std::deque<SyncSite> sync_sites_;    // that any block has reached on this CPU thread
  Barrier barriers_[kNumBarriers];
  uint32_t at_cluster_sync_ = 0;   // bit i: warp i waits there
  Site parted_, parted_too_;       // the first two places from which warps met at a block_sync
  std::vector<Meeting> meetings_;  // of each warpgroup
  std::vector<std::unique_ptr<Warpgroup>> warpgroups_;
  Mbarriers mbarriers_;
  int engines_ = 0;
  int free_registers_ = 0;  // for all threads of a warpgroup
  Fiber main_;              // the CPU thread
  Thread* last_ = nullptr;  // who ran when nobody could go on
  size_t global_hint_ = 0;
  WarpAccess* joined_ = nullptr;
  int64_t idle_polls_ = 0;  // loads that brought nothing new, since anybody did anything else
  State state_ = State::kFinished;
  bool polling_ = false;  // `last_` polls, and so does everybody else who does not wait
  bool aborting_ = false;
  std::exception_ptr error_;
  std::mt19937_64 random_;
  std::vector<int> warp_order_;
  uint32_t change_warp_every_ = 0;  // on average; 0: only when a warp waits at a barrier
};

/// Does `a` stand before `b` in the source?
bool comes_before(const Site& a, const Site& b);

[[noreturn]] void fail_outside_kernel();
/// The thread whose kernel is running on this CPU thread; throws std::logic_error outside kernels.
inline Thread& current_thread() {
  if (running_thread == nullptr) fail_outside_kernel();
  return *running_thread;
}

}  // namespace fa::simt
