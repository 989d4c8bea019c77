#pragma once
// The state of a thread and of a warp while their block runs.

#include <cstdint>
#include <vector>

#include "common/launch_config.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/simt.hpp"
#include "common/simt/traffic.hpp"

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

struct Thread {
  Fiber fiber;
  Block* block = nullptr;
  Warp* warp = nullptr;
  Thread* next = nullptr;  // the lane of its warp that runs after it: a cycle
  int index = 0, lane = 0;
  Dim3 place;  // threadIdx
  bool started = false, finished = false;
  std::vector<Copy> copies;
  size_t landed = 0;   // copies[0..landed) have landed
  int open_group = 0;  // number of the group that the next commit closes
  int landed_groups = 0;
};

/// A barrier or wait of the source, as Config::leave_out wants it.
struct SyncSite {
  Synchronization what;
  int except_warp = -1, more_groups = 0;

  bool skipped_by(const Thread& thread) const;
};

enum class Collective : uint8_t {
  kLdmatrixX1,
  kLdmatrixX1Trans,
  kLdmatrixX2,
  kLdmatrixX2Trans,
  kLdmatrixX4,
  kLdmatrixX4Trans,
  kMma,
  kShuffle,
  kVote,
  kWarpSync,
  kBlockSync,
};

struct Warp {
  int index = 0;
  int lanes = 0;  // fewer than 32 in the last warp of an odd block
  Thread* first = nullptr;
  int arrived = 0, exited = 0;
  Collective collective{};  // what the arrived lanes wait in
  Site site;
  bool at_barrier = false;
  Thread* resume = nullptr;  // the lane that goes on when the warp's turn comes
  uint32_t epoch = 0;        // warp_syncs executed
  // Per lane: instructions since the last barrier. Lanes that took different ways are even again
  // after the next warp-wide instruction, as on a GPU.
  uint32_t steps[kWarpSize] = {};
  int64_t before_barrier = 0;  // instructions up to the last barrier, this included
  AccessCollector accesses;
  // Operands of the collective, per lane. They point into the lanes' stacks.
  uint32_t* registers[kWarpSize] = {};
  uint32_t addresses[kWarpSize] = {};
  const uint32_t* a[kWarpSize] = {};
  const uint32_t* b[kWarpSize] = {};
  float* c[kWarpSize] = {};
  float values[kWarpSize] = {};
  int masks[kWarpSize] = {};
};

inline uint32_t& step_of(const Thread& thread) { return thread.warp->steps[thread.lane]; }
/// Of the instruction that `thread` is in: what Event::step is.
inline int64_t event_step(const Thread& thread) {
  return thread.warp->before_barrier + step_of(thread) - 1;
}

inline bool SyncSite::skipped_by(const Thread& thread) const {
  return what.left_out && more_groups == 0 && thread.warp->index != except_warp;
}

const char* collective_name(Collective collective);  // "ldmatrix_x4", ...

}  // namespace fa::simt
