#pragma once
// What a CUDA file may call beyond device.hpp, namely warp instructions with a mask of lanes,
// barriers at which returned threads count as arrived, atomic operations of every type. For
// common/cuda only, because the chapters' kernels use device.hpp. Run with Config::cuda_rules. The
// last parameter of each function is the place that reports name.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>

#include "common/simt/hopper.hpp"
#include "common/simt/simt.hpp"

namespace emulator::lanes {

using fa::simt::Site;

enum class Shuffle { kIdx, kUp, kDown, kXor };

/// `value` of the lane that `operand` names, as PTX's shfl.sync: `control` is its third operand (in
/// bits 0 to 4 the limit, in bits 8 to 12 the segment's mask). Returns the thread's own value where
/// the lane is outside the segment, and says so in *found. A lane that does not take part gives all
/// ones, a NaN, and is reported.
uint32_t shuffle(Shuffle mode, uint32_t mask, uint32_t value, uint32_t operand, uint32_t control,
                 bool* found, const Site& site);
/// Bit i: `predicate` of lane i of the mask.
uint32_t ballot(uint32_t mask, bool predicate, const Site& site);
/// The lanes of the mask with the same `value`.
uint32_t match(uint32_t mask, uint64_t value, const Site& site);
/// fold(a, b) over the values of the mask's lanes.
uint32_t reduce(uint32_t mask, uint32_t value, uint32_t (*fold)(uint32_t, uint32_t),
                const Site& site);
/// Waits for the lanes of the mask, and orders their accesses.
void sync(uint32_t mask, const Site& site);
/// The lanes of the warp that have come here, when no lane of it can continue.
uint32_t active(const Site& site);
/// D += A B, where the rows of A [16, k] and the columns of B [k, 8] are 8 words of 32 bits each,
/// in the registers of PTX's mma.m16n8k8.tf32 (T = fa::tf32) and m16n8k32 (fa::e4m3, fa::e5m2,
/// fa::Mixed).
template <class T>
void mma(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], const Site& site);
/// The same for integers: PTX's mma.m16n8k32 with factors of type int8_t or uint8_t.
template <class TA, class TB>
void mma_8bit(const uint32_t (&a)[4], const uint32_t (&b)[2], int (&c)[4], bool saturates,
              const Site& site);
/// Number of the warp's lanes that have not returned, as a mask.
uint32_t alive();

/// __syncthreads and barrier.sync `barrier` for `threads` threads (0: the block's). Returns the
/// number of threads whose predicate is true; block_threads(): of all that take part.
int block_barrier(int barrier, int threads, bool predicate, const Site& site);

enum Order { kRelaxed = 0, kAcquire = 1, kRelease = 2 };
/// Added to an Order if a GPU executes the operation on shared memory as a loop.
inline constexpr int kLoop = 4;

/// *p = f(*p) in one step, in global or (shared: `p` is an offset + kSharedBase) in shared memory.
/// `old` receives what was there. f(old, fresh) writes the new value. order: a sum of Order.
struct AtomicTarget {
  void* global = nullptr;
  uint32_t shared = 0;  // address in shared memory, if `global` is nullptr
};
void update(const AtomicTarget& target, size_t bytes, void* old, int order,
            const std::function<void(const void* old, void* fresh)>& f, const Site& site);
/// Loads and stores that do not race with atomic operations, such as ld.relaxed, ld.volatile,
/// ld.acquire and so on, in global memory.
void load(const void* p, void* value, size_t bytes, int order, const Site& site);
void store(void* p, const void* value, size_t bytes, int order, const Site& site);

/// PTX: mapa, getctarank.
uint32_t cluster_address(uint32_t address, int rank);
int cluster_rank_of(uint32_t address);
/// Loads and stores at such an address. Only the order of accesses is checked, and nothing is
/// counted.
void load_cluster(uint32_t address, void* value, size_t bytes, const Site& site);
void store_cluster(uint32_t address, const void* value, size_t bytes, const Site& site);
/// Starts copying a box to the shared memory of each block whose bit is set in `ranks`, at the same
/// address, and each time reports to the mbarrier that the block has at the same address; 0: to the
/// block that `mbarrier` names. PTX: cp.async.bulk.tensor…multicast::cluster.
void tma_load(uint32_t to, const TensorMap& map, std::initializer_list<int> at, uint32_t mbarrier,
              uint32_t ranks, const Site& site);
/// The same for `bytes` in a row of global memory, without a tensor map. The bytes and both
/// addresses are multiples of 16. PTX: cp.async.bulk.shared::cluster.global…,
/// cp.async.bulk.global.shared::cta.bulk_group.
void bulk_load(uint32_t to, const void* from, uint32_t bytes, uint32_t mbarrier, uint32_t ranks,
               const Site& site);
void bulk_store(void* to, uint32_t from, uint32_t bytes, const Site& site);
/// Starts copying `bytes` from `from` in the block's own shared memory to `to` in that of a block
/// of the cluster, and reports them to `mbarrier`, which is in the same block as `to`. All are
/// multiples of 16. The bytes at `from` must stay until the mbarrier's phase is complete. PTX:
/// cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.
void bulk_copy(uint32_t to, uint32_t from, uint32_t bytes, uint32_t mbarrier, const Site& site);

/// Reports a hazard of the running thread; `what` completes "thread 5 of block 0 …".
void report(fa::simt::HazardKind kind, const std::string& what, const Site& site);

}  // namespace emulator::lanes
