// The functions of device.hpp that give a thread its index, and that make lanes and warps work
// together or wait. accesses.cpp has the memory accesses.

#include "common/simt/device.hpp"

#include <bit>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "common/simt/begin.hpp"
#include "common/simt/block.hpp"
#include "common/simt/hopper.hpp"
#include "common/simt/lanes.hpp"
#include "common/simt/matrix.hpp"
#include "common/tensor_core.hpp"

namespace emulator {

namespace {

using namespace fa::simt;

constexpr uint32_t kRowBytes = 16;  // per row of an 8x8 matrix

Instruction ldmatrix_instruction(int count, bool trans) {
  if (count == 1) return trans ? Instruction::kLdmatrixX1Trans : Instruction::kLdmatrixX1;
  if (count == 2) return trans ? Instruction::kLdmatrixX2Trans : Instruction::kLdmatrixX2;
  return trans ? Instruction::kLdmatrixX4Trans : Instruction::kLdmatrixX4;
}

// Loads the matrices for the whole warp after all lanes have passed their addresses.
[[gnu::noinline]] void execute_ldmatrix(const Thread& last, int count, bool trans,
                                        const Site& site) {
  Block& block = *last.block;
  Warp& warp = *last.warp;
  const Observer reader = observer(warp);
  block.note_progress();
  static constexpr unsigned char kNaN[kRowBytes] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                    255, 255, 255, 255, 255, 255, 255, 255};
  const bool hazards = block.launch().run.hazards;
  uint32_t record = 0;
  if (hazards) {
    Access access = stamp(last, site);
    access.thread = warp.first->index;
    record = block.shadow().begin_read(access);
  }
  for (int matrix = 0; matrix < count; ++matrix) {
    const unsigned char* rows[8];
    for (int row = 0; row < 8; ++row) {
      const int lane = matrix * 8 + row;
      const Thread& thread = warp.first[lane];
      const uint32_t addr = warp.addresses[lane];
      if (!shared_ok(block, thread, site, "reads", addr, kRowBytes, kRowBytes)) {
        rows[row] = kNaN;
        continue;
      }
      const uint32_t offset = addr - kSharedBase;
      rows[row] = block.shared() + offset;
      if (hazards) block.shadow().read(record, reader, thread.index, offset, kRowBytes);
    }
    load_matrix(rows, trans, warp.registers, matrix);
  }
  uint32_t offsets[kWarpSize];
  for (int lane = 0; lane < kWarpSize; ++lane) offsets[lane] = warp.addresses[lane] - kSharedBase;
  block.traffic().matrices(warp.index, ldmatrix_instruction(count, trans), site, offsets, count);
}

template <class T>
constexpr Instruction kMmaOf = std::is_same_v<T, bf16>       ? Instruction::kMma
                               : std::is_same_v<T, fp16>     ? Instruction::kMmaFp16
                               : std::is_same_v<T, fa::tf32> ? Instruction::kMmaTf32
                                                             : Instruction::kMmaFp8;

template <class T>
[[gnu::noinline]] void execute_mma(const Thread& last, const Site& site) {
  Warp& warp = *last.warp;
  multiply_accumulate<T>(warp.a, warp.b, warp.c);
  last.block->note_progress();
  last.block->traffic().collective(warp.index, kMmaOf<T>, site);
}

[[gnu::noinline]] void execute_shuffle(const Thread& last, Instruction instruction,
                                       const Site& site) {
  Warp& warp = *last.warp;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    *warp.c[lane] = warp.values[(lane ^ warp.masks[lane]) & (kWarpSize - 1)];
  }
  last.block->traffic().collective(warp.index, instruction, site);
}

[[gnu::noinline]] void execute_vote(const Thread& last, const Site& site) {
  Warp& warp = *last.warp;
  uint32_t any = 0;
  for (const uint32_t* vote : warp.registers) any |= *vote;
  for (uint32_t* vote : warp.registers) *vote = any;
  last.block->traffic().collective(warp.index, Instruction::kVote, site);
}

Thread& begin_at_barrier(int barrier, int threads, const Site& site) {
  Thread& thread = begin(site);
  const int most = thread.block->launch().threads;
  if (barrier < 1 || barrier >= kNumBarriers) {
    throw std::runtime_error("barrier " + std::to_string(barrier) +
                             ": named barriers are 1 to 15, and 0 is block_sync");
  }
  if (threads < kWarpSize || threads > most || threads % kWarpSize != 0) {
    throw std::runtime_error(
        "barrier " + std::to_string(barrier) + " for " + std::to_string(threads) +
        " threads: it takes whole warps, at most the block's " + std::to_string(most) + " threads");
  }
  return thread;
}

}  // namespace

int thread_index() { return current_thread().place.x; }
int block_index() { return current_thread().block->place().x; }
Dim3 thread_index_3d() { return current_thread().place; }
Dim3 block_index_3d() { return current_thread().block->place(); }
Dim3 block_size() { return current_thread().block->launch().config.block; }
Dim3 grid_size() { return current_thread().block->launch().config.grid; }
uint32_t dynamic_smem() { return kSharedBase; }

float shfl_xor(float value, int lane_mask, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  float result = 0;
  warp.values[thread.lane] = detail::checked(value, line, file);
  warp.masks[thread.lane] = lane_mask;
  warp.c[thread.lane] = &result;
  if (thread.block->meet(thread, Instruction::kShuffle, site)) {
    execute_shuffle(thread, Instruction::kShuffle, site);
  }
  return result;
}

int shfl(int value, int source, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  float result = 0;
  warp.values[thread.lane] = std::bit_cast<float>(value);
  warp.masks[thread.lane] = thread.lane ^ source;
  warp.c[thread.lane] = &result;
  if (thread.block->meet(thread, Instruction::kShuffleFrom, site)) {
    execute_shuffle(thread, Instruction::kShuffleFrom, site);
  }
  return std::bit_cast<int>(result);
}

bool warp_any(bool condition, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  uint32_t vote = condition;
  thread.warp->registers[thread.lane] = &vote;
  if (thread.block->meet(thread, Instruction::kVote, site)) execute_vote(thread, site);
  return vote != 0;
}

template <class T>
void lanes::mma(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], const Site& site) {
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  warp.a[thread.lane] = a;
  warp.b[thread.lane] = b;
  warp.c[thread.lane] = c;
  if (thread.block->meet(thread, kMmaOf<T>, site)) execute_mma<T>(thread, site);
}
#define FA_INSTANTIATE(T) \
  template void lanes::mma<T>(const uint32_t(&)[4], const uint32_t(&)[2], float(&)[4], const Site&);
FA_INSTANTIATE(fa::tf32)
FA_INSTANTIATE(fa::e4m3)
FA_INSTANTIATE(fa::e5m2)
using E4m3E5m2 = fa::Mixed<fa::e4m3, fa::e5m2>;
using E5m2E4m3 = fa::Mixed<fa::e5m2, fa::e4m3>;
FA_INSTANTIATE(E4m3E5m2)
FA_INSTANTIATE(E5m2E4m3)
#undef FA_INSTANTIATE

template <class T>
void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], int line,
                  const char* file) {
  lanes::mma<T>(a, b, c, {file, line});
}
template void mma_m16n8k16<bf16>(const uint32_t (&)[4], const uint32_t (&)[2], float (&)[4], int,
                                 const char*);
template void mma_m16n8k16<fp16>(const uint32_t (&)[4], const uint32_t (&)[2], float (&)[4], int,
                                 const char*);
void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], int line,
                  const char* file) {
  mma_m16n8k16<bf16>(a, b, c, line, file);
}

template <class TA, class TB>
void lanes::mma_8bit(const uint32_t (&a)[4], const uint32_t (&b)[2], int (&c)[4], bool saturates,
                     const Site& site) {
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  warp.a[thread.lane] = a;
  warp.b[thread.lane] = b;
  warp.sums[thread.lane] = c;
  if (!thread.block->meet(thread, Instruction::kMmaS8, site)) return;
  multiply_accumulate_8bit<TA, TB>(warp.a, warp.b, warp.sums, saturates);
  thread.block->note_progress();
  thread.block->traffic().collective(warp.index, Instruction::kMmaS8, site);
}
#define FA_INSTANTIATE(TA, TB)                                                                 \
  template void lanes::mma_8bit<TA, TB>(const uint32_t(&)[4], const uint32_t(&)[2], int(&)[4], \
                                        bool, const Site&);
FA_INSTANTIATE(int8_t, int8_t)
FA_INSTANTIATE(int8_t, uint8_t)
FA_INSTANTIATE(uint8_t, int8_t)
FA_INSTANTIATE(uint8_t, uint8_t)
#undef FA_INSTANTIATE

void mma_m16n8k32_s8(const uint32_t (&a)[4], const uint32_t (&b)[2], int (&c)[4], int line,
                     const char* file) {
  lanes::mma_8bit<int8_t, int8_t>(a, b, c, false, {file, line});
}

void tile_row(int row, int columns) {
  Thread& thread = current_thread();
  if (thread.index == 0) {
    Block& block = *thread.block;
    block.traffic().tiles().push_back({block.index(), row, columns, {}});
  }
}

void tile_visit(int column, bool masked) {
  Thread& thread = current_thread();
  if (thread.index != 0) return;
  Block& block = *thread.block;
  std::vector<TileRow>& rows = block.traffic().tiles();
  if (rows.empty() || rows.back().block != block.index()) {
    throw std::logic_error("tile_visit without an earlier tile_row in this block");
  }
  rows.back().visits.push_back({column, masked});
}

void block_sync(int line, const char* file) { block_sync("", line, file); }

void block_sync(const char* label, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kBlockSync, site, label)) return;
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.sync(thread, Instruction::kBlockSync, 0, block.launch().threads, site);
}

void warp_sync(int line, const char* file) { warp_sync("", line, file); }

void warp_sync(const char* label, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kWarpSync, site, label)) return;
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (block.meet(thread, Instruction::kWarpSync, site)) {
    block.sync_warp(*thread.warp);
    block.traffic().collective(thread.warp->index, Instruction::kWarpSync, site);
  }
}

void barrier_sync(int barrier, int threads, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kBarrierSync, site, "")) return;
  Thread& thread = begin_at_barrier(barrier, threads, site);
  thread.block->sync(thread, Instruction::kBarrierSync, barrier, threads, site);
}

void barrier_arrive(int barrier, int threads, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kBarrierArrive, site, "")) return;
  Thread& thread = begin_at_barrier(barrier, threads, site);
  thread.block->sync(thread, Instruction::kBarrierArrive, barrier, threads, site);
}

bool barrier_red_or(int barrier, int threads, bool condition, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kBarrierRedOr, site, "")) return condition;
  Thread& thread = begin_at_barrier(barrier, threads, site);
  thread.warp->masks[thread.lane] = condition;
  thread.block->sync(thread, Instruction::kBarrierRedOr, barrier, threads, site);
  return thread.warp->vote;
}

namespace detail {

void ldmatrix(uint32_t* r, int count, bool trans, uint32_t addr, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  warp.registers[thread.lane] = r;
  warp.addresses[thread.lane] = addr;
  if (thread.block->meet(thread, ldmatrix_instruction(count, trans), site)) {
    execute_ldmatrix(thread, count, trans, site);
  }
}

}  // namespace detail

}  // namespace emulator
