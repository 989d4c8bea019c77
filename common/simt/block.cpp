#include "common/simt/block.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "common/simt/cluster.hpp"
#include "common/simt/overflow.hpp"

namespace fa::simt {

constinit thread_local Thread* running_thread = nullptr;

void fail_outside_kernel() { throw std::logic_error("device functions only work inside a kernel"); }

Block::Block(const Launch& launch, Cluster& cluster, bool& idle)
    : launch_(launch),
      cluster_(cluster),
      idle_(idle),
      shares_memory_(launch.run.cuda_rules && launch.run.hazards &&
                     !(launch.config.cluster == Dim3{})),
      most_steps_(static_cast<uint32_t>(
          std::clamp<int64_t>(launch.run.max_steps, 1, std::numeric_limits<uint32_t>::max()))),
      stacks_(borrow_stacks(launch.threads)),
      threads_(static_cast<size_t>(launch.threads)),
      warps_(static_cast<size_t>((launch.threads + kWarpSize - 1) / kWarpSize)),
      shared_(launch.smem_bytes),
      shadow_(hazards_),
      traffic_(launch.run),
      meetings_(warps_.size() / kWarpgroupWarps),
      mbarriers_(*this) {
  for (size_t i = 0; i < meetings_.size(); ++i) {
    warpgroups_.push_back(std::make_unique<Warpgroup>(*this, &warps_[i * kWarpgroupWarps]));
  }
}

Block::~Block() { give_back_stacks(std::move(stacks_)); }

void Block::begin(int index, int rank) {
  catch_stack_overflows();
  index_ = index;
  rank_ = rank;
  place_ = place_of(index, launch_.config.grid);
  std::fill(shared_.begin(), shared_.end(), 0xff);  // NaN in every floating-point type
  if (launch_.run.hazards) {
    shadow_.begin_block(index, launch_.smem_bytes, static_cast<int>(warps_.size()),
                        launch_.run.granule_bytes, launch_.run.async_proxy);
  }
  global_log_.begin(index, static_cast<int>(warps_.size()));
  global_shadow_.begin_block(index, launch_.run.granule_bytes);
  async_reads_.clear();
  async_writes_.clear();
  copies_out_.clear();
  traffic_.begin_block(index, static_cast<int>(warps_.size()));
  state_ = State::kWaiting;
  aborting_ = polling_ = false;
  error_ = nullptr;
  idle_polls_ = 0;
  for (Barrier& barrier : barriers_) barrier = {};
  at_cluster_sync_ = 0;
  parted_ = parted_too_ = {};
  constexpr int kRegisters = 64 * 1024, kMost = 256, kUnit = 8;
  Meeting meeting;  // registers per thread with __launch_bounds__(threads, 1)
  meeting.registers = std::min(kRegisters / launch_.threads / kUnit * kUnit, kMost);
  std::fill(meetings_.begin(), meetings_.end(), meeting);
  for (const std::unique_ptr<Warpgroup>& group : warpgroups_) group->begin_block();
  mbarriers_.clear();
  engines_ = free_registers_ = 0;
  for (size_t w = 0; w < warps_.size(); ++w) {
    Warp& warp = warps_[w];
    warp.index = static_cast<int>(w);
    warp.first = &threads_[w * kWarpSize];
    warp.lanes = std::min(kWarpSize, launch_.threads - warp.index * kWarpSize);
    warp.arrived = warp.exited = 0;
    warp.parked = false;
    warp.time = 1;
    warp.clock.clear();
    warp.before_barrier = 0;
    std::fill_n(warp.steps, kWarpSize, 0u);
    warp.lane_meetings.clear();
    warp.gone = static_cast<uint32_t>(~((uint64_t{1} << warp.lanes) - 1));
    warp.accesses.clear();
    warp.accesses.set_lanes(warp.lanes);
  }
  for (int i = 0; i < launch_.threads; ++i) {
    Thread& thread = threads_[static_cast<size_t>(i)];
    thread.block = this;
    thread.warp = &warps_[static_cast<size_t>(i / kWarpSize)];
    thread.index = i;
    thread.lane = i % kWarpSize;
    thread.place = place_of(i, launch_.config.block);
    thread.started = thread.finished = thread.parked = thread.executes = false;
    thread.copies.clear();
    thread.landed = 0;
    thread.open_group = thread.landed_groups = 0;
    thread.poll = {};
    thread.stores.reset();
    thread.clock.reset();
    thread.fenced = thread.met = thread.acquired = thread.last_met = nullptr;
    stacks_->prepare(thread.fiber, i, thread_main);
  }
  prepare_schedule();
  last_ = &threads_[0];
}

bool Block::can_go_on() const {
  if (state_ != State::kWaiting) return state_ == State::kPolling;
  return std::any_of(warps_.begin(), warps_.end(), [](const Warp& w) { return w.ready != 0; });
}

Block::State Block::go_on() { return run_from(polling_ ? last_ : pick_thread(*last_)); }

Block::State Block::run_from(Thread* thread) {
  polling_ = false;
  running_thread = thread;
  switch_fiber(main_, thread->fiber);
  running_thread = nullptr;
  const auto done = [](const Warp& warp) { return warp.exited == warp.lanes; };
  if (aborting_ || std::all_of(warps_.begin(), warps_.end(), done)) {
    finish();
  } else {
    state_ = polling_ ? State::kPolling : State::kWaiting;
  }
  return state_;
}

void Block::stop() {
  state_ = State::kFinished;
  aborting_ = true;
  unwind();
  running_thread = nullptr;
}

void Block::moves_again() {
  idle_polls_ = 0;
  if (!idle_) return;
  idle_ = false;
  --launch_.idle.workers;
  ++launch_.idle.moves;
}

// Ends the block after its last thread has returned or it has been given up.
void Block::finish() {
  state_ = State::kFinished;
  if (!aborting_) {
    report_leftovers();
  } else {
    for (Warp& warp : warps_)
      finish_accesses(warp);  // so that the log ends with what all warps
                              // were doing
    unwind();
  }
  running_thread = nullptr;
  if (launch_.run.hazards) {
    if (shares_memory_ && !aborting_) note_end();
    aborting_ ? shadow_.give_up_block() : shadow_.end_block();
    if (launch_.many_blocks) {
      global_log_.end();
      global_logs_.push_back(std::move(global_log_));
    }
  }
  if (error_) std::rethrow_exception(error_);
}

// Others may access the shared memory before this block ends, and it has ended when its last thread
// returns.
void Block::note_end() {
  forget_ended_copies();
  for (const CopyOut& copy : copies_out_) {
    report(HazardKind::kClusterRace, threads_[static_cast<size_t>(copy.thread)], copy.site, 0, [] {
      return "copies from shared memory to another block, and nothing makes its block wait for the "
             "end of the copy before it ends";
    });
  }
  std::shared_ptr<const Foreign> known;
  for (const Warp& warp : warps_) known = simt::join(known, warp.clock.foreign);
  for (const Thread& thread : threads_)
    if (thread.clock != nullptr) known = simt::join(known, thread.clock->foreign);
  global_log_.add_engine(GlobalUse::kEnd, {}, 0, std::numeric_limits<uint32_t>::max(), known,
                         shared_key(0), launch_.smem_bytes);
}

// Ends the reads of copies to other blocks of which a thread of this block knows that they have
// ended.
void Block::forget_ended_copies() {
  std::erase_if(copies_out_, [&](const CopyOut& copy) {
    const auto knows = [&](const Clock& clock) { return clock.knows_warp(copy.engine, copy.time); };
    const bool ended =
        std::any_of(warps_.begin(), warps_.end(), [&](const Warp& w) { return knows(w.clock); }) ||
        std::any_of(threads_.begin(), threads_.end(),
                    [&](const Thread& t) { return t.clock != nullptr && knows(*t.clock); });
    if (ended) shadow_.end_async_read();
    return ended;
  });
}

void Block::thread_main(transfer_t from) {
  Thread& self = *running_thread;
  arrive_on(&self.fiber, from);
  Block& block = *self.block;
  self.started = true;
  try {
    block.launch_.thread();
  } catch (const Unwind&) {
  } catch (...) {
    if (!block.error_) block.error_ = std::current_exception();
    block.aborting_ = true;
  }
  self.finished = true;
  Thread* next = nullptr;
  if (!block.aborting_) {
    Warp& warp = *self.warp;
    ++warp.exited;
    warp.ready &= ~(1u << self.position);
    block.note_progress();
    if (block.launch_.run.cuda_rules) block.lane_has_returned(self);
    if (warp.arrived != 0) {
      block.report_early_return(self);
      block.aborting_ = true;
    } else {
      if (warp.exited == warp.lanes) {
        block.finish_accesses(warp);
        block.cluster_.open_if_complete();
      }
      const uint32_t busy = warp.ready & ~warp.polling;
      next = busy != 0 ? block.ready_lane(warp, busy, self.position) : block.pick_thread(self);
    }
  }
  running_thread = next;
  leave_fiber(self.fiber, next != nullptr ? next->fiber : block.main_);
}

void Block::finish_accesses(Warp& warp) {
  if (warp.accesses.empty()) return;
  warp.accesses.for_each([&](const WarpAccess& access) { traffic_.access(warp.index, access); });
  warp.accesses.clear();
}

void Block::begin_meeting(Thread& thread, Instruction instruction, const Site& site) {
  if (aborting_) throw Unwind();  // the kernel caught the first Unwind
  Warp& warp = *thread.warp;
  if (warp.exited != 0) diverge(thread, instruction, site);
  warp.meeting = instruction;
  warp.site = site;
}

void Block::complete_meeting(Thread& thread) {
  Warp& warp = *thread.warp;
  warp.arrived = 0;
  warp.ready = warp.all;
  std::fill_n(warp.steps, kWarpSize, *std::max_element(warp.steps, warp.steps + kWarpSize));
  finish_accesses(warp);
  maybe_change_warp(thread);
}

void Block::begin_barrier(Thread& thread, const Site& site) {
  Warp& warp = *thread.warp;
  warp.before_barrier += warp.steps[0];
  if (warp.before_barrier >= launch_.run.max_steps) out_of_steps(thread, site);
  std::fill_n(warp.steps, kWarpSize, 0u);
}

void Block::sync(Thread& thread, Instruction instruction, int number, int expected,
                 const Site& site) {
  if (meet(thread, instruction, site)) arrive_at(thread, instruction, number, expected, site);
}

void Block::arrive_at(Thread& thread, Instruction instruction, int number, int expected,
                      const Site& site) {
  begin_barrier(thread, site);
  Warp& warp = *thread.warp;
  traffic_.barrier(warp.index, instruction, site, number);
  Barrier& barrier = barriers_[number];
  if (barrier.arrived != 0 && barrier.expected != expected) diverge(thread, instruction, site);
  if (barrier.arrived == 0 || comes_before(site, barrier.first)) barrier.first = site;
  if (barrier.arrived == 0 || comes_before(barrier.last, site)) barrier.last = site;
  barrier.expected = expected;
  barrier.arrived += warp.lanes;
  if (instruction == Instruction::kBarrierRedOr || launch_.run.cuda_rules) {
    for (int lane = 0; lane < warp.lanes; ++lane) {
      if ((warp.gone >> lane & 1) != 0) continue;
      barrier.vote |= warp.masks[lane] != 0;
      barrier.votes += warp.masks[lane] != 0;
    }
  }
  const bool stays = instruction != Instruction::kBarrierArrive;
  if (stays) {
    sync_warp(warp);
    barrier.waiting |= 1u << warp.index;
  } else {  // only arrives, so the others learn what its lanes did, but its lanes learn nothing
    for (int lane = 0; lane < warp.lanes; ++lane) {
      if (warp.first[lane].clock != nullptr) barrier.clock.join(*warp.first[lane].clock);
    }
    barrier.clock.learn_warp(warp.index, ++warp.time);
  }
  barrier.clock.join(warp.clock);
  const bool returned_count = launch_.run.cuda_rules && number == 0;
  if (barrier.arrived + (returned_count ? returned_threads() : 0) >= expected) {
    if (number == 0) {
      if (parted_.line == 0 && !same_site(barrier.first, barrier.last)) {
        parted_ = barrier.first;
        parted_too_ = barrier.last;
      }
      note_barrier();
    }
    complete(barrier);
  } else if (stays) {
    park_warp(thread, {instruction, site, number, expected});
  }
}

void Block::complete(Barrier& barrier) {
  for (Warp& warp : warps_) {
    if ((barrier.waiting >> warp.index & 1) == 0) continue;
    warp.clock.join(barrier.clock);
    warp.vote = barrier.vote;
    warp.votes = barrier.votes;
    wake_warp(warp);
  }
  barrier = {};
  note_progress();
}

void Block::sync_cluster(Thread& thread, const Site& site) {
  if (!meet(thread, Instruction::kClusterSync, site)) return;
  begin_barrier(thread, site);
  Warp& warp = *thread.warp;
  traffic_.collective(warp.index, Instruction::kClusterSync, site);
  sync_warp(warp);
  at_cluster_sync_ |= 1u << warp.index;
  if (!cluster_.open_if_complete()) park_warp(thread, {Instruction::kClusterSync, site});
}

bool Block::all_at_cluster_sync() const {
  return !aborting_ && std::all_of(warps_.begin(), warps_.end(), [&](const Warp& warp) {
    return warp.exited == warp.lanes || (at_cluster_sync_ >> warp.index & 1) != 0;
  });
}

Clock Block::clock_at_cluster_sync() const {
  Clock clock;
  for (const Warp& warp : warps_) {
    if ((at_cluster_sync_ >> warp.index & 1) != 0) clock.join(warp.clock);
  }
  return clock;
}

void Block::release_to_cluster(Foreign& known) const {
  Clock clock = clock_at_cluster_sync();
  if (clock.foreign != nullptr) {
    for (const auto& [block, other] : clock.foreign->blocks) known.blocks[block].join(other);
  }
  clock.foreign = nullptr;
  known.blocks[index_].join(clock);
}

// `known` is everything that all blocks of the cluster have done and know, or nullptr if there is
// only one block.
void Block::open_cluster_sync(const std::shared_ptr<const Foreign>& known) {
  if (at_cluster_sync_ == 0) return;
  Clock clock;
  if (known == nullptr) {
    clock = clock_at_cluster_sync();
  } else {
    clock = known->blocks.at(index_);
    clock.foreign = known;
    global_log_.orders_warps();
  }
  for (Warp& warp : warps_) {
    if ((at_cluster_sync_ >> warp.index & 1) == 0) continue;
    warp.clock = clock;
    wake_warp(warp);
  }
  // A warp that has returned has not arrived, so its accesses are not ordered.
  const bool all = std::popcount(at_cluster_sync_) == static_cast<int>(warps_.size());
  if (all) note_barrier();
  at_cluster_sync_ = 0;
  note_progress();
}

void Block::sync_warp(Warp& warp) {
  for (int lane = 0; lane < warp.lanes; ++lane) {
    std::unique_ptr<Clock>& clock = warp.first[lane].clock;
    if (clock == nullptr) continue;
    warp.clock.join(*clock);
    clock.reset();
  }
  warp.clock.learn_warp(warp.index, ++warp.time);
}

Clock Block::release(Thread& thread) {
  Clock clock = thread.warp->clock;
  if (thread.clock != nullptr) clock.join(*thread.clock);
  clock.learn_thread(thread.index, ++thread.warp->time);
  return clock;
}

// A thread's own clock also holds everything that its warp knows about other blocks, because only
// this clock is consulted.
void Block::acquire(Thread& thread, const Clock& released) {
  if (thread.clock == nullptr) {
    thread.clock = std::make_unique<Clock>(released);
    thread.clock->foreign = simt::join(released.foreign, thread.warp->clock.foreign);
  } else {
    thread.clock->join(released);
  }
}

std::shared_ptr<const Foreign> Block::release_to_others(Thread& thread) {
  global_log_.synchronizes();
  Clock mine = release(thread);
  auto all = std::make_shared<Foreign>();
  if (mine.foreign != nullptr) *all = *mine.foreign;
  mine.foreign = nullptr;
  all->blocks[index_].join(mine);
  return all;
}

void Block::acquire_from_others(Thread& thread, const std::shared_ptr<const Foreign>& released) {
  global_log_.synchronizes();
  if (released == nullptr || released == thread.acquired) return;
  thread.acquired = released;
  Clock clock;
  const auto own = released->blocks.find(index_);  // knowledge about this block that another block
                                                   // passes back
  if (own != released->blocks.end()) clock = own->second;
  clock.foreign = released;
  acquire(thread, clock);
}

Block* Block::in_cluster(int rank) const {
  const auto& blocks = cluster_.blocks();
  const auto number = static_cast<size_t>(rank);
  return number < blocks.size() ? blocks[number].get() : nullptr;
}

const Clock* Block::knowledge_of(const Thread& thread, int block) {
  const Clock& clock = clock_of(thread);
  if (clock.foreign == nullptr) return nullptr;
  const auto found = clock.foreign->blocks.find(block);
  return found == clock.foreign->blocks.end() ? nullptr : &found->second;
}

Clock Block::release_from(Thread& thread) {
  if (thread.block == this) return release(thread);
  global_log_.synchronizes();
  const std::shared_ptr<const Foreign> all = thread.block->release_to_others(thread);
  Clock clock;
  const auto own = all->blocks.find(index_);
  if (own != all->blocks.end()) clock = own->second;
  clock.foreign = all;
  return clock;
}

void Block::abandon(Thread& thread) {
  aborting_ = true;
  running_thread = nullptr;
  switch_fiber(thread.fiber, main_);
  throw Unwind();
}

void Block::end_by_overflow(Thread& thread) {
  end_from_signal(thread, "local arrays of thread " + std::to_string(thread.index) + " of block " +
                              std::to_string(index_) + " exceed " +
                              std::to_string(kStackBytes / 1024) +
                              " KB, the stack that the emulator gives a thread");
}

void Block::end_by_loop(Thread& thread, int ms) {
  end_from_signal(thread, "thread " + std::to_string(thread.index) + " of block " +
                              std::to_string(index_) + " has computed for " + std::to_string(ms) +
                              " ms without beginning an instruction of the emulator: its loop "
                              "does not end");
}

void Block::end_from_signal(Thread& thread, const std::string& what) {
  error_ = std::make_exception_ptr(std::runtime_error(what));
  aborting_ = true;
  thread.finished = true;  // the content of its stack is lost
  running_thread = nullptr;
  leave_fiber(thread.fiber, main_);
}

void Block::note_async_global(const Thread& thread, GlobalUse use, const Site& site, int engine,
                              uint32_t time, const void* p, size_t bytes) {
  if (!launch_.run.hazards) return;
  const auto begin = reinterpret_cast<uint64_t>(p);
  check_async_global(thread, use, site, p, bytes);
  if (launch_.many_blocks) {
    const Clock& clock = clock_of(thread);
    global_log_.add_engine(use, site, engine, time, clock.foreign, begin,
                           static_cast<uint32_t>(bytes));
  }
  AsyncUses& uses = use == GlobalUse::kRead ? async_reads_ : async_writes_;
  uses.begin = std::min(uses.begin, begin);
  uses.end = std::max(uses.end, begin + bytes);
  const uint32_t issue_time = thread.warp->time;
  if (!uses.all.empty()) {
    AsyncGlobal& last = uses.all.back();
    if (last.end == begin && last.use == use && last.engine == engine && last.time == time &&
        last.thread == thread.index && last.issue_time == issue_time &&
        same_site(last.site, site)) {
      last.end += bytes;
      return;
    }
  }
  uses.all.push_back({begin, begin + bytes, use, engine, thread.index, time, issue_time, site});
}

void Block::find_async_global(const AsyncUses& uses, const Thread& thread, GlobalUse use,
                              const Site& site, uint64_t begin, uint64_t end) {
  const Observer observes = observer(thread);
  for (const AsyncGlobal& one : uses.all) {
    if (begin >= one.end || end <= one.begin) continue;
    if (one.use == use && use == GlobalUse::kAtomic) continue;
    if (!observes.knows(one.thread, one.issue_time) ||
        observes.knows_engine(one.engine, one.time)) {
      continue;
    }
    const uint64_t address = std::max(begin, one.begin);
    return report(HazardKind::kGlobalRace, thread, site, address, [&] {
      const bool reads = one.use == GlobalUse::kRead;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is only printed
      const auto* const place = reinterpret_cast<const void*>(address);
      return std::string(use == GlobalUse::kRead ? "reads " : "writes ") + describe_address(place) +
             ", which the copy issued at " + to_string(one.site) + (reads ? " reads" : " writes") +
             ": no wait for its completion is between" +
             (reads ? "" : "; tma_store_wait_read waits for its reads only");
    });
  }
}

// Wakes each thread that is inside its kernel, with aborting_ set. The thread throws Unwind and
// returns here when its stack is empty.
void Block::unwind() {
  for (Thread& thread : threads_) {
    if (!thread.started || thread.finished) continue;
    running_thread = &thread;
    switch_fiber(main_, thread.fiber);
  }
}

// True if "attention.hpp:204" or a label names `sync`. A path may start at any of its directories.
static bool names(const std::string& name, const Synchronization& sync) {
  if (!sync.label.empty() && name == sync.label) return true;
  const std::string place = to_string(sync.where);
  if (!place.ends_with(name)) return false;
  return place.size() == name.size() || place[place.size() - name.size() - 1] == '/';
}

const SyncSite& Block::add_sync_site(Instruction instruction, const Site& site, const char* label) {
  SyncSite fresh{instruction, {info(instruction).name, site, label}};
  for (const LeaveOut& leave_out : launch_.run.leave_out) {
    if (!names(leave_out.site, fresh.what)) continue;
    fresh.what.left_out = true;
    fresh.except_warp = leave_out.except_warp;
    fresh.more_groups = leave_out.more_groups;
  }
  return sync_sites_.emplace_back(std::move(fresh));
}

void Block::report(HazardKind kind, const Thread& thread, const Site& site, uint64_t address,
                   const std::function<std::string()>& what) {
  if (!launch_.run.hazards) return;
  Hazard hazard;
  hazard.kind = kind;
  hazard.where = site;
  hazard.count = 1;
  hazard.block = index_;
  hazard.thread = thread.index;
  hazard.step = event_step(thread);
  hazard.address = address;
  if (hazards_.is_new(kind, site, index_)) {
    hazard.text = "thread " + std::to_string(thread.index) + " of block " + std::to_string(index_) +
                  " " + what();
  }
  hazards_.add(std::move(hazard));
}

}  // namespace fa::simt
