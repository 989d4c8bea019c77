#include "common/simt/block.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace fa::simt {

constinit thread_local Thread* running_thread = nullptr;

void fail_outside_kernel() { throw std::logic_error("device functions work inside a kernel only"); }

Block::Block(const Launch& launch)
    : launch_(launch),
      stacks_(borrow_stacks(launch.threads)),
      threads_(static_cast<size_t>(launch.threads)),
      warps_(static_cast<size_t>((launch.threads + kWarpSize - 1) / kWarpSize)),
      shared_(launch.smem_bytes),
      shadow_(hazards_),
      traffic_(launch.run) {}

Block::~Block() { give_back_stacks(std::move(stacks_)); }

void Block::run(int index) {
  index_ = index;
  place_ = place_of(index, launch_.config.grid);
  std::fill(shared_.begin(), shared_.end(), 0xff);  // NaN in every floating-point type
  if (launch_.run.hazards) shadow_.begin_block(index, launch_.smem_bytes);
  traffic_.begin_block(index, static_cast<int>(warps_.size()));
  aborting_ = false;
  error_ = nullptr;
  waiting_warps_ = 0;
  for (size_t w = 0; w < warps_.size(); ++w) {
    Warp& warp = warps_[w];
    warp.index = static_cast<int>(w);
    warp.first = &threads_[w * kWarpSize];
    warp.lanes = std::min(kWarpSize, launch_.threads - warp.index * kWarpSize);
    warp.arrived = warp.exited = 0;
    warp.at_barrier = false;
    warp.epoch = 0;
    warp.before_barrier = 0;
    std::fill_n(warp.steps, kWarpSize, 0u);
    warp.accesses.clear();
  }
  for (int i = 0; i < launch_.threads; ++i) {
    Thread& thread = threads_[static_cast<size_t>(i)];
    thread.block = this;
    thread.warp = &warps_[static_cast<size_t>(i / kWarpSize)];
    thread.index = i;
    thread.lane = i % kWarpSize;
    thread.place = place_of(i, launch_.config.block);
    thread.started = thread.finished = false;
    thread.copies.clear();
    thread.landed = 0;
    thread.open_group = thread.landed_groups = 0;
    stacks_->prepare(thread.fiber, i, thread_main);
  }
  prepare_schedule();
  Thread* first = pick_warp()->resume;
  running_thread = first;
  switch_fiber(main_, first->fiber);
  if (aborting_) unwind();
  running_thread = nullptr;
  if (launch_.run.hazards) aborting_ ? shadow_.give_up_block() : shadow_.end_block();
  if (error_) std::rethrow_exception(error_);
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
  Thread* next = block.aborting_ ? nullptr : block.next_after_exit(self);
  running_thread = next;
  leave_fiber(self.fiber, next != nullptr ? next->fiber : block.main_);
}

// Who runs when `thread` has returned from the kernel; nullptr: nobody is left, or nobody can.
Thread* Block::next_after_exit(Thread& thread) {
  Warp& warp = *thread.warp;
  ++warp.exited;
  if (warp.arrived != 0) {
    report_early_return(thread);
    aborting_ = true;
    return nullptr;
  }
  if (warp.exited < warp.lanes) {
    Thread* next = thread.next;
    while (next->finished) next = next->next;
    return next;
  }
  finish_accesses(warp);
  Warp* other = pick_warp();
  if (other != nullptr) return other->resume;
  if (waiting_warps_ > 0) {
    report_missing_arrivals(thread);
    aborting_ = true;
  }
  return nullptr;
}

void Block::finish_accesses(Warp& warp) {
  if (warp.accesses.empty()) return;
  for (const WarpAccess& access : warp.accesses) traffic_.access(warp.index, access);
  warp.accesses.clear();
}

void Block::begin_collective(Thread& thread, Collective collective, const Site& site) {
  if (aborting_) throw Unwind();  // the kernel has caught the first one
  Warp& warp = *thread.warp;
  if (warp.exited != 0) diverge(thread, collective, site);
  warp.collective = collective;
  warp.site = site;
}

void Block::complete_collective(Thread& thread) {
  Warp& warp = *thread.warp;
  warp.arrived = 0;
  std::fill_n(warp.steps, kWarpSize, *std::max_element(warp.steps, warp.steps + kWarpSize));
  finish_accesses(warp);
  maybe_change_warp(thread);
}

void Block::sync(Thread& thread, const Site& site) {
  if (meet(thread, Collective::kBlockSync, site)) arrive_at_barrier(thread, site);
}

// All lanes of thread's warp have arrived at block_sync.
void Block::arrive_at_barrier(Thread& thread, const Site& site) {
  Warp& warp = *thread.warp;
  warp.before_barrier += warp.steps[0];
  std::fill_n(warp.steps, kWarpSize, 0u);
  traffic_.collective(warp.index, EventKind::kBarrier, site);
  for (const Warp& other : warps_) {
    if (other.at_barrier && !same_site(other.site, site)) {
      diverge(thread, Collective::kBlockSync, site);
    }
  }
  if (++waiting_warps_ == static_cast<int>(warps_.size())) {
    for (Warp& each : warps_) each.at_barrier = false;
    waiting_warps_ = 0;
    if (launch_.run.hazards) shadow_.barrier();
    return;
  }
  warp.at_barrier = true;
  warp.resume = &thread;
  Warp* next = pick_warp();
  if (next == nullptr) {
    report_missing_arrivals(thread);
    abandon(thread);
  }
  hand_over(thread, *next->resume);
}

void Block::abandon(Thread& thread) {
  aborting_ = true;
  running_thread = nullptr;
  switch_fiber(thread.fiber, main_);
  throw Unwind();
}

// Each thread that is in the middle of its kernel is woken with aborting_ set, throws Unwind, and
// comes back here when its stack is empty.
void Block::unwind() {
  for (Thread& thread : threads_) {
    if (!thread.started || thread.finished) continue;
    running_thread = &thread;
    switch_fiber(main_, thread.fiber);
  }
}

// Does "attention.hpp:204" or a label mean this one? A path matches from any directory on.
static bool names(const std::string& name, const Synchronization& sync) {
  if (!sync.label.empty() && name == sync.label) return true;
  const std::string place = to_string(sync.where);
  if (!place.ends_with(name)) return false;
  return place.size() == name.size() || place[place.size() - name.size() - 1] == '/';
}

const SyncSite& Block::add_sync_site(const char* instruction, const Site& site, const char* label) {
  SyncSite fresh{{instruction, site, label}};
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
