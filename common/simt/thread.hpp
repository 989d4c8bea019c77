#pragma once
// The state of a thread and of a warp while their block runs.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/launch_config.hpp"
#include "common/simt/clock.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/instructions.hpp"
#include "common/simt/mbarrier.hpp"
#include "common/simt/simt.hpp"
#include "common/simt/traffic.hpp"
#include "common/simt/warpgroup.hpp"

namespace fa::simt {

class Block;
struct Warp;

struct Copy {  // a cp.async in flight
  uint32_t offset;
  const void* source;
  uint32_t bytes;   // of the source; zeros fill up to 16
  uint32_t record;  // in the shadow
  int group;
};

/// What a thread or a warp waits for: for a deadlock's report.
struct Wait {
  Instruction what{};
  Site site;
  int id = -1;        // of the barrier, if it has one; registers of setmaxnreg
  int expected = -1;  // threads that it takes, if it is not all of them
  int mbarrier = -1;  // number of an mbarrier
};

/// The bulk copies to global memory of one thread.
struct BulkStores {
  int engine;
  std::deque<TensorCopy> copies;  // that have not been done; `phase` is their group
  uint32_t done = 0;              // how many have
  int open_group = 0;
};

/// Loads that bring nothing new: see Block::note_load.
struct Poll {
  uint64_t addresses[2] = {}, values[2] = {};  // the last two
  uint32_t repeats = 0;                        // loads in a row that brought one of the two
  uint32_t alone = 0;                          // of those, since it did anything else, too
  uint32_t step = 0;                           // of the last
  Site site;
};

struct Thread {
  Fiber fiber;
  Block* block = nullptr;
  Warp* warp = nullptr;
  int index = 0, lane = 0;
  int position = 0;  // of the lane, in the order in which its warp's lanes run
  Dim3 place;        // threadIdx
  bool started = false, finished = false;
  bool parked = false;  // waits alone, for `wait`
  Wait wait;
  std::vector<Copy> copies;
  size_t landed = 0;   // copies[0..landed) have landed
  int open_group = 0;  // number of the group that the next commit closes
  int landed_groups = 0;
  Poll poll;
  std::unique_ptr<BulkStores> stores;
  std::unique_ptr<Clock> clock;  // what it has learned alone since its warp's last warp_sync
  // Fences and atomic accesses make an edge together: what the last fence covers is released by
  // atomic stores behind it; what atomic loads have met is acquired by the next fence.
  std::shared_ptr<const Foreign> fenced, met;
  std::shared_ptr<const Foreign> acquired, last_met;  // most recently: a poll brings it again
};

/// A barrier or wait of the source, as Config::leave_out wants it.
struct SyncSite {
  Instruction instruction;
  Synchronization what;
  int except_warp = -1, more_groups = 0;

  bool skipped_by(const Thread& thread) const;
};

struct Warp {
  int index = 0;
  int lanes = 0;  // fewer than 32 in the last warp of an odd block
  Thread* first = nullptr;

  // The scheduler's. Bit i stands for the lane that runs as i-th: threads[order[i]].
  uint8_t order[kWarpSize] = {};
  uint32_t all = 0;      // of its lanes
  uint32_t ready = 0;    // lanes that can go on
  uint32_t polling = 0;  // of those, the ones that only look whether something has changed
  int turn = 0;          // who goes on when the warp's turn comes, if it is ready
  int exited = 0;
  bool parked = false;  // all lanes wait together, for `wait`
  Wait wait;

  // The warp-wide instruction that lanes have arrived at.
  int arrived = 0;
  Instruction meeting{};
  Site site;

  uint32_t time = 1;  // see Clock
  Clock clock;        // what all its lanes know
  // Per lane: instructions since the last barrier. Lanes that took different ways are even again
  // after the next warp-wide instruction, as on a GPU.
  uint32_t steps[kWarpSize] = {};
  int64_t before_barrier = 0;  // instructions up to the last barrier, this included
  AccessCollector accesses;
  // Operands of the instruction, per lane. They point into the lanes' stacks.
  uint32_t* registers[kWarpSize] = {};
  uint32_t addresses[kWarpSize] = {};
  const uint32_t* a[kWarpSize] = {};
  const uint32_t* b[kWarpSize] = {};
  float* c[kWarpSize] = {};
  void* sums[kWarpSize] = {};  // of mma for integers
  float values[kWarpSize] = {};
  int masks[kWarpSize] = {};
  WgmmaCall* wgmma[kWarpSize] = {};
  bool vote = false;  // of the last barrier_red_or
};

inline uint32_t& step_of(const Thread& thread) { return thread.warp->steps[thread.lane]; }
/// Of the instruction that `thread` is in: what Event::step is.
inline int64_t event_step(const Thread& thread) {
  return thread.warp->before_barrier + step_of(thread) - 1;
}

inline bool SyncSite::skipped_by(const Thread& thread) const {
  return what.left_out && more_groups == 0 && thread.warp->index != except_warp;
}

inline Observer observer(const Thread& thread) {
  return {thread.warp->clock, thread.clock.get(), thread.index};
}
inline Observer observer(const Warp& warp) { return {warp.clock, nullptr, -1, warp.index}; }

}  // namespace fa::simt
