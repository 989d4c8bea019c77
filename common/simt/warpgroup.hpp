#pragma once
// wgmma: four warps multiply a matrix of 64 rows, while they go on (PTX ISA, "Asynchronous
// warpgroup level matrix instructions").
//
// Everything happens as late as it may. The operands in shared memory, and those in registers, are
// read when the first of the four warps waits for the group; each warp's accumulators change when
// that warp waits. From issue to wait the registers hold poison: signalling NaNs of a pattern that
// nothing else computes, and that arithmetic keeps. A thread that passes them, or what it computed
// from them, to an instruction or a function of device.hpp is reported when its block ends, unless
// this wgmma has been reported already. A thread that writes them destroys the pattern: that is
// seen at the wait, and reported; so is a wait that returns accumulators without naming them, as
// the one that should have named them is missing.

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

/// What one thread brings to a wgmma.
struct WgmmaCall {
  float* d;     // [n / 8][4]
  uint32_t* a;  // [4], or nullptr: descriptor_a counts
  uint64_t descriptor_a, descriptor_b;
  int n;
  bool accumulate;  // scale-d
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

  /// All four warps have arrived, each lane with its call in warp.wgmma.
  void issue(const Thread& last, const Site& site);
  // By one warp, all its lanes together.
  void fence(const Warp& warp);
  void commit(const Warp& warp);
  void wait(const Thread& last, int pending_groups, std::span<const float* const> registers,
            const Site& site);

  bool used() const { return engine_ >= 0; }
  void report_leftovers();  // at the end of a block
  /// `thread` uses `bits`, which hold poison, at `site`: notes the wgmma that they come from.
  void note_early_read(const Thread& thread, uint32_t bits, const Site& site);

 private:
  static constexpr int kRows = 64, kMaxColumns = 256;
  static constexpr int kChunks = 2;  // of 16 bytes in a row: its 16 k, or 32 of 8 bits

  // Arrays of registers that belong to operations in flight, and what they will hold.
  struct Accumulator {
    float* of[kWarpgroupSize];
    int n = 0;
    bool in_flight[kWarpgroupWarps] = {};
    int64_t last = -1;           // operation that uses it
    uint32_t poison = 0;         // what its registers hold in flight
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
    int thread;  // of the warpgroup
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
  Warp* warps_;  // the first of four
  int engine_ = -1;
  std::deque<Operation> operations_;  // numbered from first_ on
  int64_t first_ = 0, computed_ = 0;
  int64_t landed_[kWarpgroupWarps] = {};  // operations below have given back this warp's registers
  int open_group_[kWarpgroupWarps] = {};
  bool fenced_[kWarpgroupWarps] = {};
  std::vector<Site> sites_;  // of the operations that put poison in registers, by its number
  std::vector<EarlyRead> early_reads_;  // the first of each wgmma
  std::vector<Site> reported_;          // wgmma with registers in flight, in this block
  std::vector<std::unique_ptr<Accumulator>> accumulators_;
  std::vector<std::unique_ptr<Operand>> operands_;
};

}  // namespace fa::simt
