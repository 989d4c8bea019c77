#pragma once
// In wgmma, four warps multiply a matrix of 64 rows asynchronously (PTX ISA, "Asynchronous
// Warpgroup Level Matrix Multiply-Accumulate Instructions").
//
// Everything happens as late as the program allows. The operands in shared memory and in registers
// are read when the first of the four warps waits for the group. Each warp's accumulators change
// when that warp waits. From issue to wait the accumulators hold poison, which are signalling NaNs
// with a pattern that no arithmetic produces and that arithmetic preserves. If a thread passes
// them, or a value computed from them, to a function of device.hpp, the hazard is reported at the
// end of the block, unless this wgmma has been reported already. A thread that overwrites them
// destroys the pattern, which the wait detects and reports. A wait that returns accumulators
// without naming them is reported as well, because the wait that should have named them is missing.

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "common/simt/descriptor.hpp"
#include "common/simt/hopper.hpp"
#include "common/simt/matrix.hpp"
#include "common/simt/simt.hpp"
#include "common/tensor_core.hpp"

namespace fa::simt {

using emulator::WgmmaType;

class Block;
struct Thread;
struct Warp;

inline constexpr int kWarpgroupWarps = 4;
inline constexpr int kWarpgroupSize = kWarpgroupWarps * kWarpSize;

/// The operands that one thread passes to a wgmma.
struct WgmmaCall {
  float* d;     // [n / 8][4]
  uint32_t* a;  // [4], or nullptr if A is in shared memory at descriptor_a
  uint64_t descriptor_a, descriptor_b;
  int n;
  bool accumulate;  // PTX: scale-d
  bool mn_major_a, mn_major_b;
  WgmmaType type;

  bool agrees_with(const WgmmaCall& other) const {
    return descriptor_a == other.descriptor_a && descriptor_b == other.descriptor_b &&
           accumulate == other.accumulate;
  }
};

class Warpgroup {
 public:
  Warpgroup(Block& block, Warp* first_warp) : block_(block), warps_(first_warp) {}
  void begin_block();

  /// Issues a wgmma after all four warps have arrived, with each lane's operands in warp.wgmma.
  void issue(const Thread& last, const Site& site);
  // Called once per warp, for all its lanes.
  void fence(const Warp& warp);
  void commit(const Warp& warp);
  void wait(const Thread& last, int pending_groups, std::span<const float* const> registers,
            const Site& site);

  bool used() const { return engine_ >= 0; }
  void report_leftovers();  // called at the end of a block
  /// Records that `thread` uses `bits`, which hold poison, at `site`, and finds the wgmma that they
  /// come from.
  void note_early_read(const Thread& thread, uint32_t bits, const Site& site);

 private:
  static constexpr int kRows = 64, kMaxColumns = 256;
  static constexpr int kChunks = 2;  // 16-byte chunks per row: 16 k of 16 bits, or 32 k of 8 bits

  // Registers that operations in flight use, and the values that they will receive.
  struct Accumulator {
    float* of[kWarpgroupSize];
    int n = 0;
    bool in_flight[kWarpgroupWarps] = {};
    int64_t last = -1;           // number of the last operation that uses it
    uint32_t poison = 0;         // value in its registers while it is in flight
    std::vector<float> columns;  // [n][kRows]
  };
  struct Operand {
    uint32_t* of[kWarpgroupSize];
    uint32_t values[kWarpgroupSize][4];
    bool in_flight[kWarpgroupWarps] = {};
    int64_t last = -1;
    Site site;
  };
  struct EarlyRead {
    int thread;  // index in the warpgroup
    Site wgmma, use;
  };
  struct Operation {
    WgmmaCall call;
    Site site;
    Accumulator* d;
    Operand* a;
    int group[kWarpgroupWarps];
  };

  int index_of(const Warp& warp) const;
  const WgmmaCall& call_of(int thread) const;
  Thread& thread(int i) const;
  template <class Registers, class Pointer>
  Registers& find(std::vector<std::unique_ptr<Registers>>& all, Pointer pointer_of);
  void take_accumulators(Operation& operation);
  void take_operand(Operation& operation);
  void check_fence(const Operation& operation);
  void check_shared(const Operation& operation);
  void check_operand(const Operation& operation, const char* name, uint64_t bits, bool mn_major,
                     int rows, uint32_t record);
  void compute(Operation& operation);
  template <class T>
  void multiply(Operation& operation);
  void load_registers(const Operation& operation, uint32_t (&words)[kWordsAtATime][kRows]);
  template <class Place>
  void load_chunk(uint32_t address, Place place) const;
  void give_back(int warp, const Thread& last, std::span<const float* const> registers,
                 const Site& site);
  void report(int thread, const Site& site, HazardKind kind, const std::string& text);
  bool is_reported(const Site& wgmma) const;

  Block& block_;
  Warp* warps_;  // first of the four warps
  int engine_ = -1;
  std::deque<Operation> operations_;  // numbered from first_
  int64_t first_ = 0, computed_ = 0;
  int64_t landed_[kWarpgroupWarps] = {};  // operations below this number have returned this warp's
                                          // registers
  int open_group_[kWarpgroupWarps] = {};
  bool fenced_[kWarpgroupWarps] = {};
  std::vector<Site> sites_;  // sites of the operations that poisoned registers, indexed by the
                             // poison's number
  std::vector<EarlyRead> early_reads_;  // first one of each wgmma
  std::vector<Site> reported_;          // wgmma sites of this block already reported for registers
                                        // in flight
  std::vector<std::unique_ptr<Accumulator>> accumulators_;
  std::vector<std::unique_ptr<Operand>> operands_;
};

}  // namespace fa::simt
