#pragma once
// What is known to have happened before: a vector clock (Lamport; Mattern), for the lanes of a
// block.
//
// Each warp has a time, which moves on when its lanes synchronize or one of them releases what it
// did. A clock says up to which time the accesses of each warp are ordered before whoever holds it.
// That one number for 32 lanes is enough as long as whole warps synchronize; what a single lane
// released (an mbarrier's arrive, a flag) is kept for that lane.
//
// What works beside the threads (bulk copies, wgmma) has a time of its own, as if it were one warp
// more: an engine, numbered behind the block's warps. Whoever has waited for it knows its time.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/simt/matrix.hpp"

namespace fa::simt {

struct Foreign;

class Clock {
 public:
  /// Is the access of `thread` at `time` (of its warp) ordered before the holder?
  bool knows(int thread, uint32_t time) const {
    const auto warp = static_cast<size_t>(thread / kWarpSize);
    if (warp < warps_.size() && time < warps_[warp]) return true;
    const auto lane = find_lane(thread);
    return lane != lanes_.end() && lane->thread == thread && time < lane->until;
  }

  /// Is all that the lanes of `warp` did at `time`?
  bool knows_warp(int warp, uint32_t time) const {
    const auto index = static_cast<size_t>(warp);
    return index < warps_.size() && time < warps_[index];
  }

  /// Is anything known that a lane of warps [first, last] did behind `time`?
  bool knows_any_lane(int first, int last, uint32_t time) const {
    for (int warp = first; warp <= last; ++warp) {
      if (knows_warp(warp, time)) return true;
    }
    for (auto lane = find_lane(first * kWarpSize); lane != lanes_.end(); ++lane) {
      if (lane->thread >= (last + 1) * kWarpSize) break;
      if (time < lane->until) return true;
    }
    return false;
  }

  /// Up to which time all that the lanes of `warp` did is known.
  uint32_t time_of(int warp) const {
    const auto index = static_cast<size_t>(warp);
    return index < warps_.size() ? warps_[index] : 0;
  }

  /// Does `other` know all that the holder knows?
  bool covered_by(const Clock& other) const;

  bool same_as(const Clock& other) const { return covered_by(other) && other.covered_by(*this); }

  /// From now on the holder knows what the lanes of `warp` did before `time`.
  void learn_warp(int warp, uint32_t time) {
    const auto index = static_cast<size_t>(warp);
    if (index >= warps_.size()) warps_.resize(index + 1);
    warps_[index] = std::max(warps_[index], time);
  }
  void learn_thread(int thread, uint32_t time) {
    const auto lane = lanes_.begin() + (find_lane(thread) - lanes_.begin());
    if (lane != lanes_.end() && lane->thread == thread) {
      lane->until = std::max(lane->until, time);
    } else {
      lanes_.insert(lane, {thread, time});
    }
  }

  /// And all that `other` knows.
  void join(const Clock& other);

  void clear() { *this = {}; }

  /// What the holder knows of other blocks, through global memory; nullptr: nothing.
  std::shared_ptr<const Foreign> foreign;

 private:
  struct LaneTime {
    int thread;
    uint32_t until;
  };
  std::vector<LaneTime>::const_iterator find_lane(int thread) const {
    return std::lower_bound(lanes_.begin(), lanes_.end(), thread,
                            [](const LaneTime& lane, int t) { return lane.thread < t; });
  }

  std::vector<uint32_t> warps_;  // before this time, every lane's accesses are known
  std::vector<LaneTime> lanes_;  // and those of single lanes, a little longer; sorted by thread
};

/// What is known of other blocks: their clocks, without what they know of others.
struct Foreign {
  std::map<int, Clock> blocks;
};

/// All that the two know; the same object if one of them is all.
inline std::shared_ptr<const Foreign> join(const std::shared_ptr<const Foreign>& a,
                                           const std::shared_ptr<const Foreign>& b) {
  if (b == nullptr || a == b) return a;
  if (a == nullptr) return b;
  auto both = std::make_shared<Foreign>(*a);
  for (const auto& [block, clock] : b->blocks) both->blocks[block].join(clock);
  return both;
}

inline void Clock::join(const Clock& other) {
  if (warps_.size() < other.warps_.size()) warps_.resize(other.warps_.size());
  for (size_t i = 0; i < other.warps_.size(); ++i) {
    warps_[i] = std::max(warps_[i], other.warps_[i]);
  }
  for (const LaneTime& lane : other.lanes_) learn_thread(lane.thread, lane.until);
  std::erase_if(lanes_, [&](const LaneTime& lane) {
    return lane.until <= 1 || knows_warp(lane.thread / kWarpSize, lane.until - 1);
  });
  foreign = simt::join(foreign, other.foreign);
}

inline bool Clock::covered_by(const Clock& other) const {
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (warps_[i] > other.time_of(static_cast<int>(i))) return false;
  }
  for (const LaneTime& lane : lanes_) {
    if (!other.knows(lane.thread, lane.until - 1)) return false;
  }
  return foreign == nullptr || foreign == other.foreign;
}

/// Who looks: a thread, or a whole warp whose lanes must all know.
struct Observer {
  const Clock& warp;           // what every lane of it knows
  const Clock* own = nullptr;  // what the thread has learned besides
  int thread = -1;             // -1: the whole warp
  int warp_index = -1;         // of the whole warp

  /// Did `other`, a lane of this warp or this thread itself, do that in program order?
  bool is(int other) const {
    return thread >= 0 ? other == thread : other / kWarpSize == warp_index;
  }
  bool knows(int other, uint32_t time) const {
    return other == thread || warp.knows(other, time) ||
           (own != nullptr && own->knows(other, time));
  }
  bool knows_engine(int engine, uint32_t time) const {
    return warp.knows_warp(engine, time) || (own != nullptr && own->knows_warp(engine, time));
  }
};

}  // namespace fa::simt
