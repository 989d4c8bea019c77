#pragma once
// Vector clocks for the threads of a block (Lamport, Mattern). They tell whether one access
// happened before another.
//
// Each warp has a time, which advances when its lanes synchronize or when one of them releases its
// accesses. A clock stores one time per warp, because all accesses of that warp before this time
// are ordered before the holder of the clock. One number for 32 lanes is enough as long as whole
// warps synchronize. If a single lane releases something (an mbarrier's arrive, a flag), the clock
// keeps a separate time for that lane.
//
// Work that runs asynchronously to the threads (bulk copies, wgmma) has its own time, as if an
// additional warp did it. This row of the clock is called an engine, and engines are numbered after
// the block's warps. A thread that has waited for an engine knows its time.

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
  /// True if the access of `thread` at `time` (of its warp) is ordered before the holder.
  bool knows(int thread, uint32_t time) const {
    const auto warp = static_cast<size_t>(thread / kWarpSize);
    if (warp < warps_.size() && time < warps_[warp]) return true;
    const auto lane = find_lane(thread);
    return lane != lanes_.end() && lane->thread == thread && time < lane->until;
  }

  /// True if everything that the lanes of `warp` did at `time` is ordered before the holder.
  bool knows_warp(int warp, uint32_t time) const {
    const auto index = static_cast<size_t>(warp);
    return index < warps_.size() && time < warps_[index];
  }

  /// True if anything after `time` by a lane of warps [first, last] is ordered before the holder.
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

  /// Returns the time before which all accesses of `warp` are known.
  uint32_t time_of(int warp) const {
    const auto index = static_cast<size_t>(warp);
    return index < warps_.size() ? warps_[index] : 0;
  }

  /// True if `other` knows everything that this clock knows.
  bool covered_by(const Clock& other) const;

  bool same_as(const Clock& other) const { return covered_by(other) && other.covered_by(*this); }

  /// Adds everything that the lanes of `warp`, or a single thread, did before `time`.
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

  /// Adds everything that `other` knows.
  void join(const Clock& other);

  void clear() { *this = {}; }

  /// what the holder knows about other blocks, through global memory, or nullptr for nothing
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

  std::vector<uint32_t> warps_;  // accesses of every lane before this time are known
  std::vector<LaneTime> lanes_;  // later times of single lanes; sorted by thread
};

/// Knowledge about other blocks, which is the clock of each, without what that block knew about
/// others.
struct Foreign {
  std::map<int, Clock> blocks;
};

/// Returns the union of both. If one of them contains the other, returns that object itself.
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

/// The observer of a race check is a thread, or a warp whose lanes must all know the earlier
/// access.
struct Observer {
  const Clock& warp;           // what every lane of the warp knows
  const Clock* own = nullptr;  // what this thread has learned in addition
  int thread = -1;             // -1 for the whole warp
  int warp_index = -1;         // number of the warp, if the whole warp observes

  /// True if program order covers `other`: it is this thread, or a lane of this warp.
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
