#pragma once
// Counters and events. The lanes of a warp run one after the other here, so the accesses that a
// GPU executes as one instruction arrive one at a time: they are put together first, then counted.

#include <array>
#include <cstdint>
#include <vector>

#include "common/simt/instructions.hpp"
#include "common/simt/matrix.hpp"
#include "common/simt/simt.hpp"

namespace fa::simt {

struct WgmmaCall;

/// Passes over the 32 banks of 4 bytes that one ldmatrix matrix costs: the busiest bank's distinct
/// words. `addresses` of its 8 rows of 16 bytes. Confirmed by Nsight Compute on an H200.
int matrix_wavefronts(const uint32_t (&addresses)[8]);

/// The same for a plain shared access of `bytes` (up to 16) by each lane in `lanes`. Accesses of 8
/// bytes go by half warps, of 16 by quarter warps, so that a pass moves at most 128 bytes; a load
/// takes two halves or quarters at once where neighbours ask for the same. Confirmed likewise.
int access_wavefronts(const uint32_t* addresses, uint32_t lanes, int bytes, bool load);

/// How many 32-byte sectors hold bytes [addresses[i], addresses[i] + sizes[i]) of any lane.
int global_sectors(const uint64_t* addresses, const uint8_t* sizes, uint32_t lanes);

/// One warp instruction that lanes execute on their own.
struct WarpAccess {
  Instruction instruction{};
  Site site;
  uint32_t lanes = 0;       // bit i: lane i takes part
  uint32_t next = 0;        // AccessCollector's
  uint8_t bytes = 0;        // moved per lane
  int group = -1;           // copy_issue, commit: the group's number; land: the last that landed
  int first_landed = -1;    // wait: groups first_landed..group land
  int pending_groups = -1;  // wait
  uint32_t box_bytes = 0;   // of bulk copies, or that an mbarrier is told to expect, by all lanes
  uint32_t outside_bytes = 0;                  // of the box, outside the tensor
  int mbarrier = -1, phase = -1, parity = -1;  // these: as Event has them
  std::vector<int> coordinates = {};
  std::array<uint8_t, kWarpSize> sizes{};    // bytes of global memory each lane touches
  std::array<uint32_t, kWarpSize> shared{};  // offsets in shared memory
  std::array<uint64_t, kWarpSize> global{};  // global addresses
};

/// Where a warp's lanes meet to form instructions. The k-th time that a lane passes a source line
/// since the last warp-wide instruction belongs to the k-th time that the others do.
class AccessCollector {
 public:
  void set_lanes(int lanes) { all_lanes_ = static_cast<uint32_t>((uint64_t{1} << lanes) - 1); }

  /// The instruction to which this lane's access belongs; the caller fills in the lane's part.
  WarpAccess& join(int lane, Instruction instruction, const Site& site, int bytes);

  /// Has this lane gone so far ahead of the others that they should catch up? Says so each time
  /// that the number of unfinished instructions has doubled.
  bool far_ahead(int lane) {
    if (count_ < far_ || lane_counts_[static_cast<size_t>(lane)] != count_) return false;
    far_ *= 2;
    return true;
  }
  /// Do all of many instructions have all their lanes? Then they need not be kept.
  bool complete() const { return unfinished_ == 0 && count_ >= kFar; }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  /// f(access) of each, so that what a lane has executed stands in its order: an instruction that
  /// some lanes alone execute comes behind what they did before, whoever ran first.
  template <class F>
  void for_each(F f) const {
    for (uint32_t i = first_; i != 0; i = accesses_[i - 1].next) f(accesses_[i - 1]);
  }
  void clear();

 private:
  // One line of the source: its instructions in order, and how many of them each lane has joined.
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

  std::vector<WarpAccess> accesses_;  // reused; the first count_ are valid
  size_t count_ = 0;
  std::vector<Line> lines_;  // reused; the first line_count_ are valid
  size_t line_count_ = 0;
  size_t unfinished_ = 0, far_ = kFar;
  std::array<size_t, kWarpSize> lane_counts_{};  // accesses of each lane
  // In their order: the first access, and the last of each lane, counted from 1; 0: none.
  uint32_t first_ = 0;
  std::array<uint32_t, kWarpSize> last_{};
};

/// What the blocks that one CPU thread runs add up to.
class Traffic {
 public:
  explicit Traffic(const Config& config) : config_(config) {}

  void begin_block(int block, int warps);
  void access(int warp, const WarpAccess& access);
  // ldmatrix and stmatrix: `addresses` of the rows of so many 8x8 matrices.
  void matrices(int warp, Instruction instruction, const Site& site, const uint32_t* addresses,
                int matrices);
  void collective(int warp, Instruction instruction, const Site& site);  // mma, shuffle, syncs
  void barrier(int warp, Instruction instruction, const Site& site, int number);
  void wgmma(int warp, const Site& site, const WgmmaCall& call);
  void wgmma_wait(int warp, const Site& site, int pending_groups);

  bool wanted() const { return config_.counters || logging_; }
  const Counters& counters() const { return counters_; }
  std::vector<Event>& events() { return events_; }
  std::vector<TileRow>& tiles() { return tiles_; }

 private:
  void count_instruction(Instruction instruction);
  void count(const WarpAccess& access);
  void estimate(int64_t Counters::*field);
  void log(int warp, Instruction instruction, const Site& site, const WarpAccess* access);

  const Config& config_;
  Counters counters_;
  std::vector<Event> events_;
  std::vector<TileRow> tiles_;
  std::vector<int64_t> steps_;                 // per warp
  std::vector<std::vector<int>> group_bytes_;  // per warp and group: for the land events
  int block_ = 0;
  bool logging_ = false;
};

}  // namespace fa::simt
