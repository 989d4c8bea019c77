// The order in which warps and lanes run. A correct kernel gives the same result in every order.

#include <algorithm>
#include <numeric>

#include "common/simt/block.hpp"
#include "common/simt/shuffle.hpp"

namespace fa::simt {

void Block::prepare_schedule() {
  const uint64_t seed = launch_.run.schedule_seed;
  warp_order_.resize(warps_.size());
  std::iota(warp_order_.begin(), warp_order_.end(), 0);
  std::vector<uint8_t> lanes(kWarpSize);
  change_warp_every_ = 0;  // with seed 0, one warp after another runs to its next barrier
  if (seed != 0) {
    random_.seed(seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(index_));
    shuffle(warp_order_, random_);
    constexpr uint32_t kChangeEvery[] = {0, 1, 2, 8};  // 1 switches at every warp-wide instruction
    change_warp_every_ = kChangeEvery[seed % 4];
  }
  for (Warp& warp : warps_) {
    lanes.resize(static_cast<size_t>(warp.lanes));
    std::iota(lanes.begin(), lanes.end(), uint8_t{0});
    if (seed != 0) shuffle(lanes, random_);
    for (size_t i = 0; i < lanes.size(); ++i) {
      warp.order[i] = lanes[i];
      warp.first[lanes[i]].position = static_cast<int>(i);
    }
    warp.all = warp.ready = static_cast<uint32_t>((uint64_t{1} << warp.lanes) - 1);
    warp.polling = 0;
    warp.turn = 0;
  }
}

// Returns the next warp that can run, or nullptr. A warp that only polls comes last.
Warp* Block::pick_warp() {
  if (change_warp_every_ != 0) {
    std::rotate(warp_order_.begin(),
                warp_order_.begin() + static_cast<ptrdiff_t>(random_() % warp_order_.size()),
                warp_order_.end());
  }
  Warp* polls = nullptr;
  for (int index : warp_order_) {
    Warp& warp = warps_[static_cast<size_t>(index)];
    if ((warp.ready & ~warp.polling) == 0 && !warp.lane_meetings.empty()) release_converged(warp);
    if ((warp.ready & ~warp.polling) != 0) return &warp;
    if (warp.ready != 0 && polls == nullptr) polls = &warp;
  }
  return polls;
}

// Returns the thread that runs when `last` cannot or has ended, or nullptr if none can run.
Thread* Block::pick_thread(Thread& last) {
  last_ = &last;
  Warp* warp = pick_warp();
  if (warp == nullptr) return nullptr;
  const uint32_t busy = warp->ready & ~warp->polling;
  return ready_lane(*warp, busy != 0 ? busy : warp->ready, warp->turn);
}

void Block::maybe_change_warp(Thread& thread) {
  if (change_warp_every_ == 0 || random_() % change_warp_every_ != 0) return;
  thread.warp->turn = thread.position;
  Warp* next = pick_warp();  // there is one, because this warp can run
  if (next == thread.warp) return;
  const uint32_t busy = next->ready & ~next->polling;
  hand_over(thread, *ready_lane(*next, busy != 0 ? busy : next->ready, next->turn));
}

void Block::leave(Thread& thread) {
  last_ = &thread;
  running_thread = nullptr;
  switch_fiber(thread.fiber, main_);
  if (aborting_) throw Unwind();
}

// Called when `thread` has polled often enough. Runs first all other threads that can make
// progress, then those that also poll, then other blocks.
void Block::take_turns_polling(Thread& thread) {
  idle_polls_ += kPollsATurn;
  Warp& own = *thread.warp;
  own.polling |= 1u << thread.position;
  own.turn = thread.position;
  Thread* next = nullptr;
  if (const uint32_t busy = own.ready & ~own.polling) {
    next = ready_lane(own, busy, thread.position);
  } else {
    for (Warp& warp : warps_) {
      const uint32_t busy_there = warp.ready & ~warp.polling;
      if (busy_there == 0) continue;
      next = ready_lane(warp, busy_there, warp.turn);
      break;
    }
  }
  if (next != nullptr) {
    hand_over(thread, *next);
  } else {
    for (Warp& warp : warps_) warp.polling = 0;
    polling_ = true;
    leave(thread);
  }
  own.polling &= ~(1u << thread.position);
}

// Called when `thread` has executed many instructions that the rest of its warp has not begun. If
// no other lane can run, it has executed them alone.
void Block::let_lanes_catch_up(Thread& thread) {
  Warp& warp = *thread.warp;
  const uint32_t others = warp.ready & ~warp.polling & ~(1u << thread.position);
  if (others != 0) {
    hand_over(thread, *ready_lane(warp, others, thread.position));
  } else {
    finish_accesses(warp);
  }
}

void Block::park(Thread& thread, const Wait& wait) {
  thread.wait = wait;
  thread.parked = true;
  thread.warp->ready &= ~(1u << thread.position);
  pass_on(thread);
}

void Block::wake(Thread& thread) {
  thread.parked = false;
  thread.warp->ready |= 1u << thread.position;
  note_progress();
}

// Parks a warp whose lanes have all arrived. `last` is the first to run afterwards.
void Block::park_warp(Thread& last, const Wait& wait) {
  Warp& warp = *last.warp;
  warp.wait = wait;
  warp.parked = true;
  warp.ready = 0;
  warp.turn = last.position;
  pass_on(last);
}

void Block::wake_warp(Warp& warp) {
  warp.parked = false;
  warp.ready = warp.all;
}

}  // namespace fa::simt
