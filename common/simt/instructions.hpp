#pragma once
// The table of all instructions that a kernel can call. Names in messages, kinds of events and
// counters come from it. To add an instruction, add a line here and a function that executes it.

#include <cstddef>
#include <cstdint>

#include "common/simt/counters.hpp"
#include "common/simt/simt.hpp"

namespace fa::simt {

/// The threads that execute an instruction together, which are one, a warp or a warpgroup.
enum class Scope : uint8_t { kThread, kWarp, kWarpgroup };

/// Whether hardware has confirmed what the instruction adds to the counters. With kByCase,
/// Traffic::count decides for each access.
enum class Confirmed : uint8_t { kNo, kByCase, kYes };

// X(identifier, name, scope, event, counter of instructions, whether the counts are confirmed)
#define FA_SIMT_INSTRUCTIONS(X)                                                                   \
  X(CpAsync, "cp_async_16", Thread, CopyIssue, &Counters::cp_async_instructions, ByCase)          \
  X(CpAsyncCommit, "cp_async_commit", Thread, Commit, nullptr, Yes)                               \
  X(CpAsyncWait, "cp_async_wait", Thread, Wait, nullptr, Yes)                                     \
  X(LoadShared, "load_shared", Thread, LoadShared, nullptr, Yes)                                  \
  X(StoreShared, "store_shared", Thread, StoreShared, nullptr, Yes)                               \
  X(LoadGlobal, "load_global", Thread, LoadGlobal, nullptr, Yes)                                  \
  X(StoreGlobal, "store_global", Thread, StoreGlobal, nullptr, Yes)                               \
  X(AtomicAdd, "atomic_add", Thread, Atomic, &Counters::global_atomics, Yes)                      \
  X(AtomicShared, "atomic_shared", Thread, Atomic, nullptr, Yes)                                  \
  X(AtomicSharedLoop, "atomic_shared_loop", Thread, Atomic, nullptr, Yes)                         \
  X(LoadAcquire, "load_acquire", Thread, LoadGlobal, nullptr, No)                                 \
  X(StoreRelease, "store_release", Thread, StoreGlobal, nullptr, No)                              \
  X(ThreadFence, "thread_fence", Thread, Fence, nullptr, Yes)                                     \
  X(LdmatrixX1, "ldmatrix_x1", Warp, Ldmatrix, &Counters::ldmatrix_instructions, Yes)             \
  X(LdmatrixX1Trans, "ldmatrix_x1_trans", Warp, Ldmatrix, &Counters::ldmatrix_instructions, Yes)  \
  X(LdmatrixX2, "ldmatrix_x2", Warp, Ldmatrix, &Counters::ldmatrix_instructions, Yes)             \
  X(LdmatrixX2Trans, "ldmatrix_x2_trans", Warp, Ldmatrix, &Counters::ldmatrix_instructions, Yes)  \
  X(LdmatrixX4, "ldmatrix_x4", Warp, Ldmatrix, &Counters::ldmatrix_instructions, Yes)             \
  X(LdmatrixX4Trans, "ldmatrix_x4_trans", Warp, Ldmatrix, &Counters::ldmatrix_instructions, Yes)  \
  X(StmatrixX4, "stmatrix_x4", Warp, StoreShared, nullptr, No)                                    \
  X(Mma, "mma_m16n8k16", Warp, Mma, &Counters::mma_instructions, Yes)                             \
  X(MmaFp16, "mma_m16n8k16", Warp, Mma, &Counters::mma_instructions, Yes)                         \
  X(MmaTf32, "mma_m16n8k8_tf32", Warp, Mma, &Counters::mma_instructions, No)                      \
  X(MmaFp8, "mma_m16n8k32_fp8", Warp, Mma, &Counters::mma_instructions, No)                       \
  X(MmaS8, "mma_m16n8k32_s8", Warp, Mma, &Counters::mma_instructions, Yes)                        \
  X(Shuffle, "shfl_xor", Warp, Shuffle, &Counters::shuffle_instructions, Yes)                     \
  X(ShuffleFrom, "shfl", Warp, Shuffle, &Counters::shuffle_instructions, Yes)                     \
  X(ShuffleUp, "shfl_up", Warp, Shuffle, &Counters::shuffle_instructions, No)                     \
  X(ShuffleDown, "shfl_down", Warp, Shuffle, &Counters::shuffle_instructions, No)                 \
  X(Match, "match", Warp, Vote, nullptr, No)                                                      \
  X(Reduce, "redux", Warp, Vote, nullptr, No)                                                     \
  X(ActiveMask, "activemask", Warp, Vote, nullptr, No)                                            \
  X(Vote, "warp_any", Warp, Vote, nullptr, Yes)                                                   \
  X(WarpSync, "warp_sync", Warp, WarpSync, nullptr, Yes)                                          \
  X(BlockSync, "block_sync", Warp, Barrier, &Counters::barriers, Yes)                             \
  X(BarrierSync, "barrier_sync", Warp, Barrier, &Counters::barriers, No)                          \
  X(BarrierArrive, "barrier_arrive", Warp, BarrierArrive, &Counters::barriers, No)                \
  X(BarrierRedOr, "barrier_red_or", Warp, Barrier, &Counters::barriers, No)                       \
  X(ClusterSync, "cluster_sync", Warp, ClusterSync, &Counters::barriers, No)                      \
  X(MbarrierInit, "mbarrier_init", Thread, Mbarrier, &Counters::mbarrier_operations, Yes)         \
  X(MbarrierInval, "mbarrier_inval", Thread, Mbarrier, &Counters::mbarrier_operations, No)        \
  X(MbarrierArrive, "mbarrier_arrive", Thread, Arriving, &Counters::mbarrier_operations, No)      \
  X(MbarrierExpectTx, "mbarrier_expect_tx", Thread, Arriving, &Counters::mbarrier_operations, No) \
  X(MbarrierArriveExpectTx, "mbarrier_arrive_expect_tx", Thread, Arriving,                        \
    &Counters::mbarrier_operations, Yes)                                                          \
  X(MbarrierTryWait, "mbarrier_try_wait", Thread, Awaiting, &Counters::mbarrier_operations, No)   \
  X(MbarrierWait, "mbarrier_wait", Thread, Awaiting, &Counters::mbarrier_operations, No)          \
  X(FenceMbarrierInit, "fence_mbarrier_init", Thread, Fence, nullptr, No)                         \
  X(FenceProxyAsync, "fence_proxy_async", Thread, Fence, nullptr, No)                             \
  X(FenceProxyAsyncGlobal, "fence_proxy_async_global", Thread, Fence, nullptr, No)                \
  X(TmaLoad, "tma_load", Thread, TmaLoad, &Counters::tma_instructions, Yes)                       \
  X(TmaStore, "tma_store", Thread, TmaStore, &Counters::tma_instructions, No)                     \
  X(BulkReduceAdd, "bulk_reduce_add", Thread, TmaStore, &Counters::tma_instructions, No)          \
  X(BulkCopy, "bulk_copy", Thread, TmaLoad, &Counters::tma_instructions, No)                      \
  X(TmaStoreCommit, "tma_store_commit", Thread, Commit, nullptr, No)                              \
  X(TmaStoreWait, "tma_store_wait", Thread, Wait, nullptr, No)                                    \
  X(TmaStoreWaitRead, "tma_store_wait_read", Thread, Wait, nullptr, No)                           \
  X(Wgmma, "wgmma", Warpgroup, Wgmma, &Counters::wgmma_instructions, Yes)                         \
  X(WgmmaFence, "wgmma_fence", Warp, Fence, nullptr, No)                                          \
  X(WgmmaCommit, "wgmma_commit", Warp, Commit, nullptr, No)                                       \
  X(WgmmaWait, "wgmma_wait", Warp, Wait, nullptr, No)                                             \
  X(SetmaxnregInc, "setmaxnreg_inc", Warpgroup, Registers, nullptr, No)                           \
  X(SetmaxnregDec, "setmaxnreg_dec", Warpgroup, Registers, nullptr, No)                           \
  X(ElectOne, "elect_one", Warp, Vote, nullptr, No)

#define FA_SIMT_IDENTIFIER(identifier, ...) k##identifier,
enum class Instruction : uint8_t { FA_SIMT_INSTRUCTIONS(FA_SIMT_IDENTIFIER) };
#undef FA_SIMT_IDENTIFIER

struct InstructionInfo {
  const char* name;
  Scope scope;
  EventKind event;
  int64_t Counters::*counter;
  Confirmed confirmed;
};

#define FA_SIMT_ROW(identifier, name, scope, event, counter, confirmed) \
  {name, Scope::k##scope, EventKind::k##event, counter, Confirmed::k##confirmed},
inline constexpr InstructionInfo kInstructions[] = {FA_SIMT_INSTRUCTIONS(FA_SIMT_ROW)};
#undef FA_SIMT_ROW

constexpr const InstructionInfo& info(Instruction instruction) {
  return kInstructions[static_cast<size_t>(instruction)];
}

}  // namespace fa::simt
