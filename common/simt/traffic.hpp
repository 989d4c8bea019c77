#pragma once
// Counts instructions and records events. The lanes of a warp run one after another here, so the
// accesses that a GPU executes as one instruction arrive one at a time. They are collected first
// and then counted.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/instructions.hpp"
#include "common/simt/matrix.hpp"
#include "common/simt/simt.hpp"

namespace fa::simt {

struct WgmmaCall;

/// Returns the passes over the 32 banks of 4 bytes that one matrix of an ldmatrix takes, which is
/// the number of distinct words in the busiest bank. `addresses` are those of its 8 rows of 16
/// bytes. Confirmed by Nsight Compute on an H200.
int matrix_wavefronts(const uint32_t (&addresses)[8]);

/// The same for a plain shared access of `bytes` (up to 16) by each lane in `lanes`. An access of 8
/// bytes is split into half warps, one of 16 into quarter warps, so that a pass moves at most 128
/// bytes. A load combines two halves or quarters if neighbouring lanes read the same address.
/// Confirmed by Nsight Compute on an H200.
int access_wavefronts(const uint32_t* addresses, uint32_t lanes, int bytes, bool load);

/// Returns how many 32-byte sectors contain bytes [addresses[i], addresses[i] + sizes[i]) of any
/// lane.
int global_sectors(const uint64_t* addresses, const uint8_t* sizes, uint32_t lanes);

/// A warp instruction that each lane executes on its own.
struct WarpAccess {
  Instruction instruction{};
  Site site;
  uint32_t lanes = 0;          // bit i is set if lane i takes part
  uint32_t next = 0;           // used by AccessCollector
  uint8_t bytes = 0;           // moved per lane
  int group = -1;              // copy_issue, commit: number of the group; land: the last group that
                               // landed
  int first_landed = -1;       // for a wait, groups first_landed to group land
  int pending_groups = -1;     // wait
  uint32_t box_bytes = 0;      // copied, or expected by an mbarrier, summed over the lanes
  uint32_t outside_bytes = 0;  // part of the box outside the tensor
  int mbarrier = -1, phase = -1, parity = -1;  // as in Event
  std::vector<int> coordinates = {};
  std::array<uint8_t, kWarpSize> sizes{};    // bytes of global memory per lane
  std::array<uint32_t, kWarpSize> shared{};  // offsets in shared memory
  std::array<uint64_t, kWarpSize> global{};  // global addresses
};

/// Combines the accesses of a warp's lanes into instructions. A lane's k-th access at a source line
/// since the last warp-wide instruction belongs to the same instruction as the other lanes' k-th
/// access there.
class AccessCollector {
 public:
  void set_lanes(int lanes) { all_lanes_ = static_cast<uint32_t>((uint64_t{1} << lanes) - 1); }

  /// Returns the instruction that this lane's access belongs to. The caller fills in the lane's
  /// part.
  WarpAccess& join(int lane, Instruction instruction, const Site& site, int bytes);

  /// True if this lane is so far ahead that the others should catch up. Returns true each time that
  /// the number of unfinished instructions has doubled.
  bool far_ahead(int lane) {
    if (count_ < far_ || lane_counts_[static_cast<size_t>(lane)] != count_) return false;
    far_ *= 2;
    return true;
  }
  /// True if there are many instructions and all have all their lanes, so that they can be counted
  /// and dropped.
  bool complete() const { return unfinished_ == 0 && count_ >= kFar; }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  /// Calls f(access) for each instruction, in an order that respects the program order of every
  /// lane. An instruction that only some lanes execute comes after what these lanes did before,
  /// whichever lane ran first.
  template <class F>
  void for_each(F f) const {
    for (uint32_t i = first_; i != 0; i = accesses_[i - 1].next) f(accesses_[i - 1]);
  }
  void clear();

 private:
  // A source line, with its instructions in order, and how many of them each lane has joined.
  struct Line {
    Instruction instruction{};
    Site site;
    int bytes = 0;
    std::vector<uint32_t> instructions;
    std::array<uint32_t, kWarpSize> joined{};
  };
  static constexpr size_t kFar = 256;
  Line& add_line(Instruction instruction, const Site& site, int bytes);

  uint32_t all_lanes_ = 0xffffffff;

  std::vector<WarpAccess> accesses_;  // reused, where the first count_ are valid
  size_t count_ = 0;
  std::vector<Line> lines_;  // reused, where the first line_count_ are valid
  size_t line_count_ = 0;
  size_t unfinished_ = 0, far_ = kFar;
  std::array<size_t, kWarpSize> lane_counts_{};  // number of accesses per lane
  // Links of the order: the first access, and the last access of each lane, counted from 1, or 0
  // for none.
  uint32_t first_ = 0;
  std::array<uint32_t, kWarpSize> last_{};
};

/// Counts and events of all blocks that one CPU thread runs.
class Traffic {
 public:
  explicit Traffic(const Config& config) : config_(config) {}

  void begin_block(int block, int warps);
  void access(int warp, const WarpAccess& access);
  // ldmatrix and stmatrix: `addresses` are those of the rows of `matrices` 8x8 matrices.
  void matrices(int warp, Instruction instruction, const Site& site, const uint32_t* addresses,
                int matrices);
  void collective(int warp, Instruction instruction, const Site& site);  // mma, shuffle, syncs
  void barrier(int warp, Instruction instruction, const Site& site, int number);
  void wgmma(int warp, const Site& site, const WgmmaCall& call);
  void wgmma_wait(int warp, const Site& site, int pending_groups);

  /// Config::lines.
  const std::map<std::pair<std::string, int>, LineCounters>& lines() const { return lines_; }
  bool wanted() const { return config_.counters || logging_; }
  const Counters& counters() const { return counters_; }
  std::vector<Event>& events() { return events_; }
  std::vector<TileRow>& tiles() { return tiles_; }

 private:
  void count_instruction(Instruction instruction);
  void count_line(const Site& site, const Counters& before);
  void count(const WarpAccess& access);
  void count_atomic(const WarpAccess& access);
  void estimate(int64_t Counters::*field);
  void log(int warp, Instruction instruction, const Site& site, const WarpAccess* access);

  const Config& config_;
  Counters counters_;
  std::vector<Event> events_;
  std::vector<TileRow> tiles_;
  std::map<std::pair<std::string, int>, LineCounters> lines_;
  std::vector<int64_t> steps_;                 // per warp
  std::vector<std::vector<int>> group_bytes_;  // [warp][group], for the land events
  int block_ = 0;
  bool logging_ = false;
};

}  // namespace fa::simt
