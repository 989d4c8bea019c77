#pragma once
// State of a thread and of a warp while their block runs.

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
  uint32_t bytes;   // bytes read from the source, before zeros fill up to `size`
  uint32_t size;    // 4, 8 or 16
  uint32_t record;  // number of the record in the shadow memory
  int group;
};

/// The place and reason of a wait, which the report of a deadlock prints.
struct Wait {
  Instruction what{};
  Site site;
  int id = -1;         // number of the barrier, if it has one; for setmaxnreg: registers
  int expected = -1;   // threads that the barrier expects, or -1 for all of the block
  uint32_t lanes = 0;  // lanes for which an instruction with a mask waits
  int mbarrier = -1;   // number of the mbarrier, or -1
};

/// Bulk copies from shared to global memory that one thread issued.
struct BulkStores {
  int engine;                     // engine of their reads of shared memory
  int writing_engine;             // engine of their writes to global memory
  std::deque<TensorCopy> copies;  // not yet executed, where TensorCopy::phase is the commit group
  uint32_t done = 0;              // executed copies
  int open_group = 0;
  std::vector<uint32_t> issued;  // [committed groups]: copies up to the end of the group

  uint32_t next_time() const { return done + static_cast<uint32_t>(copies.size()) + 1; }
};

/// Repeated loads that return known values, as in a loop that polls a flag: see Block::note_load.
struct Poll {
  uint64_t addresses[2] = {}, values[2] = {};  // last two distinct loads
  uint32_t repeats = 0;                        // consecutive loads that returned one of the two
  uint32_t alone = 0;                          // of these, loads without any other instruction in
                                               // between
  uint32_t step = 0;                           // step of the last load
  Site site;
};

struct Thread {
  Fiber fiber;
  Block* block = nullptr;
  Warp* warp = nullptr;
  int index = 0, lane = 0;
  int position = 0;  // place of this lane in its warp's execution order
  Dim3 place;        // threadIdx
  bool started = false, finished = false;
  bool parked = false;    // waits on its own for `wait`, without the other lanes
  bool executes = false;  // it was woken to execute the instruction that its lanes met at
  Wait wait;
  std::vector<Copy> copies;
  size_t landed = 0;   // copies[0..landed) have landed
  int open_group = 0;  // number of the group that the next commit closes
  int landed_groups = 0;
  Poll poll;
  std::unique_ptr<BulkStores> stores;
  std::unique_ptr<Clock> clock;  // what this thread alone has learned since its warp's last
                                 // warp_sync
  // A fence and atomic accesses order memory together. An atomic store releases what the last fence
  // before it covers (`fenced`). A fence acquires what the atomic loads before it have read
  // (`met`).
  std::shared_ptr<const Foreign> fenced, met;
  std::shared_ptr<const Foreign> acquired, last_met;  // the latest ones, because a polling thread
                                                      // reads the same value again
};

/// A barrier or wait of the source, with what Config::leave_out says about it.
struct SyncSite {
  Instruction instruction;
  Synchronization what;
  int except_warp = -1, more_groups = 0;

  bool skipped_by(const Thread& thread) const;
};

struct Warp {
  int index = 0;
  int lanes = 0;  // fewer than 32 in the last warp of a block whose size is not a multiple of 32
  Thread* first = nullptr;

  // State of the scheduler. Bit i of each mask is the lane that runs i-th: threads[order[i]].
  uint8_t order[kWarpSize] = {};
  uint32_t all = 0;      // existing lanes
  uint32_t ready = 0;    // lanes that can continue
  uint32_t polling = 0;  // ready lanes that only poll memory
  int turn = 0;          // position to start from when the warp is scheduled next
  int exited = 0;
  bool parked = false;  // all lanes wait together for `wait`
  Wait wait;

  // The warp-wide instruction at which lanes are arriving.
  int arrived = 0;
  Instruction meeting{};
  Site site;

  uint32_t time = 1;  // see Clock
  Clock clock;        // what all lanes of the warp know
  // Instructions per lane since the last barrier. After a divergent branch, the next warp-wide
  // instruction makes the counts equal again, because lanes reconverge there on a GPU.
  uint32_t steps[kWarpSize] = {};
  int64_t before_barrier = 0;  // instructions up to and including the last barrier
  AccessCollector accesses;
  // Instructions with a mask of lanes (CUDA's *_sync): several may be waiting at the same time.
  struct LaneMeeting {
    Instruction instruction{};
    uint32_t mask = 0;  // 0: all lanes that arrive until no lane can continue (activemask)
    uint32_t arrived = 0;
    Site site;
  };
  std::vector<LaneMeeting> lane_meetings;
  uint32_t gone = 0;  // bit i is set if lane i has returned, or does not exist
  int votes = 0;      // votes in the last barrier_red
  // Operands of the current warp-wide instruction, one per lane. The pointers lead to the lanes'
  // stacks.
  uint32_t* registers[kWarpSize] = {};
  uint32_t addresses[kWarpSize] = {};
  const uint32_t* a[kWarpSize] = {};
  const uint32_t* b[kWarpSize] = {};
  float* c[kWarpSize] = {};
  void* sums[kWarpSize] = {};  // accumulators of an integer mma
  float values[kWarpSize] = {};
  int masks[kWarpSize] = {};
  WgmmaCall* wgmma[kWarpSize] = {};
  bool vote = false;  // result of the last barrier_red_or
};

inline uint32_t& step_of(const Thread& thread) { return thread.warp->steps[thread.lane]; }
/// Returns the Event::step of the instruction that `thread` is executing.
inline int64_t event_step(const Thread& thread) {
  return thread.warp->before_barrier + step_of(thread) - 1;
}

inline bool SyncSite::skipped_by(const Thread& thread) const {
  return what.left_out && more_groups == 0 && thread.warp->index != except_warp;
}

inline Observer observer(const Thread& thread) {
  return {thread.warp->clock, thread.clock.get(), thread.index};
}
/// What the thread knows.
inline const Clock& clock_of(const Thread& thread) {
  return thread.clock != nullptr ? *thread.clock : thread.warp->clock;
}
inline Observer observer(const Warp& warp) { return {warp.clock, nullptr, -1, warp.index}; }

}  // namespace fa::simt
