#pragma once
// Hopper's additional instructions for kernels on the emulator, which are mbarriers, tensor copies
// (TMA), wgmma, register budgets and clusters. common/gpu/hopper.hpp declares the same functions
// for the GPU. Addresses are in shared memory, as dynamic_smem() returns them. "PTX:" names the
// instruction that a function stands for.

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "common/simt/device.hpp"
#include "common/tensor_map.hpp"

#define FA_SIMT_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()

namespace emulator {

using fa::Swizzle;

// ---- mbarriers: 8 bytes of shared memory, aligned to 8

/// Initializes an mbarrier whose phases each take `arrivals`, and begins phase 0. One thread calls
/// it. Synchronize before any other thread uses it. PTX: mbarrier.init.
void mbarrier_init(uint32_t mbarrier, int arrivals, FA_SIMT_SITE);
/// Makes the mbarriers that this thread has initialized visible to tensor copies. PTX:
/// fence.mbarrier_init.release.cluster.
void fence_mbarrier_init(FA_SIMT_SITE);
/// Ends the use of the mbarrier, so that its bytes can hold something else. PTX: mbarrier.inval.
void mbarrier_inval(uint32_t mbarrier, FA_SIMT_SITE);

/// Arrives once in the current phase, and releases what this thread did before. PTX:
/// mbarrier.arrive.
void mbarrier_arrive(uint32_t mbarrier, FA_SIMT_SITE);
/// Adds `bytes` to what the current phase expects. PTX: mbarrier.expect_tx.
void mbarrier_expect_tx(uint32_t mbarrier, uint32_t bytes, FA_SIMT_SITE);
/// Adds `bytes` to what the current phase expects, then arrives. PTX: mbarrier.arrive.expect_tx.
void mbarrier_arrive_expect_tx(uint32_t mbarrier, uint32_t bytes, FA_SIMT_SITE);

/// True if the phase with this parity is complete, that is, if the current phase has the other
/// parity. On a new mbarrier, parity 1 is complete. PTX: mbarrier.try_wait.parity.
bool mbarrier_try_wait(uint32_t mbarrier, int parity, FA_SIMT_SITE);
/// Waits until the phase with this parity is complete. After that, this thread may read what the
/// arriving threads wrote before they arrived, and the bytes that the phase counted.
void mbarrier_wait(uint32_t mbarrier, int parity, FA_SIMT_SITE);
void mbarrier_wait(uint32_t mbarrier, int parity, const char* label, FA_SIMT_SITE);

/// Orders ordinary accesses to shared memory before those of wgmma and tensor copies. It covers the
/// stores of this thread and all stores that are ordered before the fence. A copy or a wgmma that
/// is ordered after the fence sees them. PTX: fence.proxy.async.shared::cta.
void fence_proxy_async(FA_SIMT_SITE);
/// The same for global memory that was stored to and that a tensor copy of this launch accesses.
/// PTX: fence.proxy.async.global.
void fence_proxy_async_global(FA_SIMT_SITE);

// ---- Storing matrices in shared memory

/// Stores four 8x8 matrices of 16-bit elements, the reverse of ldmatrix_x4. Lane 8i + j passes the
/// address of row j of matrix i. Lane t stores elements 2(t%4) and 2(t%4)+1 of row t/4 from r[i].
/// PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16.
void stmatrix_x4(uint32_t addr, const uint32_t (&r)[4], FA_SIMT_SITE);

// ---- Tensor copies (TMA): one thread copies a box of a tensor

/// Describes a tensor and its box. A kernel takes it as `FA_GRID_CONSTANT const TensorMap map`.
struct TensorMap {
  fa::TensorBox box;
};

/// Returns the map of a tensor with 1 to 5 dimensions, the innermost first. `sizes` counts
/// elements, `strides` are in bytes and leave out the innermost dimension, and `box` is the number
/// of elements per dimension that one instruction copies. Throws fa::InputError.
template <class T>
TensorMap make_tensor_map(const T* data, std::initializer_list<int64_t> sizes,
                          std::initializer_list<int64_t> strides, std::initializer_list<int> box,
                          Swizzle swizzle) {
  return {fa::make_tensor_box(data, sizeof(T), sizes, strides, box, swizzle)};
}

enum class WgmmaType { bf16, fp16, e4m3 };

namespace detail {
template <class T>
constexpr WgmmaType wgmma_type() {
  if (std::is_same_v<T, fa::e4m3>) return WgmmaType::e4m3;
  return std::is_same_v<T, fp16> ? WgmmaType::fp16 : WgmmaType::bf16;
}
void tma_load(uint32_t dst, const TensorMap& map, std::initializer_list<int> at, uint32_t mbarrier,
              int line, const char* file);
void tma_store(const TensorMap& map, std::initializer_list<int> at, uint32_t src, int line,
               const char* file);
void tma_store_wait(int pending_groups, bool read, int line, const char* file);
void wgmma_wait(int pending_groups, std::initializer_list<const float*> registers, int line,
                const char* file);
void setmaxnreg(bool more, int registers, int line, const char* file);
void wgmma(float* d, int n, uint32_t* a, uint64_t descriptor_a, uint64_t descriptor_b,
           bool accumulate, bool mn_major_a, bool mn_major_b, WgmmaType type, int line,
           const char* file);
}  // namespace detail

/// Starts copying a box to `dst` in shared memory. x, y, … are the coordinates of its first
/// element. `dst` is a multiple of 128, or of 1024 if the 128-byte swizzle is to start there.
/// Elements outside the tensor become zeros. The mbarrier counts the bytes of the whole box even if
/// it crosses the tensor's edge. x times the size of an element must be a multiple of 16, because
/// otherwise an H200 reports an illegal instruction. PTX:
/// cp.async.bulk.tensor.{1..5}d.shared::cluster.global.mbarrier::complete_tx::bytes.
inline void tma_load_1d(uint32_t dst, const TensorMap& map, int x, uint32_t mbarrier,
                        FA_SIMT_SITE) {
  detail::tma_load(dst, map, {x}, mbarrier, line, file);
}
inline void tma_load_2d(uint32_t dst, const TensorMap& map, int x, int y, uint32_t mbarrier,
                        FA_SIMT_SITE) {
  detail::tma_load(dst, map, {x, y}, mbarrier, line, file);
}
inline void tma_load_3d(uint32_t dst, const TensorMap& map, int x, int y, int z, uint32_t mbarrier,
                        FA_SIMT_SITE) {
  detail::tma_load(dst, map, {x, y, z}, mbarrier, line, file);
}
inline void tma_load_4d(uint32_t dst, const TensorMap& map, int x, int y, int z, int w,
                        uint32_t mbarrier, FA_SIMT_SITE) {
  detail::tma_load(dst, map, {x, y, z, w}, mbarrier, line, file);
}
inline void tma_load_5d(uint32_t dst, const TensorMap& map, int x, int y, int z, int w, int v,
                        uint32_t mbarrier, FA_SIMT_SITE) {
  detail::tma_load(dst, map, {x, y, z, w, v}, mbarrier, line, file);
}

/// Starts copying a box from `src` in shared memory to the tensor. Elements outside the tensor are
/// not stored, unless they share a unit of 16 bytes with one inside. x has the same restriction as
/// in a load. A negative coordinate is an illegal instruction. PTX:
/// cp.async.bulk.tensor.{1..5}d.global.shared::cta.bulk_group.
inline void tma_store_1d(const TensorMap& map, int x, uint32_t src, FA_SIMT_SITE) {
  detail::tma_store(map, {x}, src, line, file);
}
inline void tma_store_2d(const TensorMap& map, int x, int y, uint32_t src, FA_SIMT_SITE) {
  detail::tma_store(map, {x, y}, src, line, file);
}
inline void tma_store_3d(const TensorMap& map, int x, int y, int z, uint32_t src, FA_SIMT_SITE) {
  detail::tma_store(map, {x, y, z}, src, line, file);
}
inline void tma_store_4d(const TensorMap& map, int x, int y, int z, int w, uint32_t src,
                         FA_SIMT_SITE) {
  detail::tma_store(map, {x, y, z, w}, src, line, file);
}
inline void tma_store_5d(const TensorMap& map, int x, int y, int z, int w, int v, uint32_t src,
                         FA_SIMT_SITE) {
  detail::tma_store(map, {x, y, z, w, v}, src, line, file);
}
/// Starts adding `bytes` of fp32 values in shared memory to those at `dst`. Each addition is atomic
/// with respect to other additions. Both addresses and `bytes` are multiples of 16. It belongs to
/// the same groups as tensor stores and is awaited in the same way. PTX:
/// cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32.
void bulk_reduce_add(float* dst, uint32_t src, uint32_t bytes, FA_SIMT_SITE);
/// Closes this thread's current group of stores. PTX: cp.async.bulk.commit_group.
void tma_store_commit(FA_SIMT_SITE);
/// Wait until at most N of this thread's groups are unfinished. tma_store_wait_read only waits
/// until the groups have read shared memory, while tma_store_wait waits until they have written
/// global memory. PTX: cp.async.bulk.wait_group.read, cp.async.bulk.wait_group.
template <int N>
void tma_store_wait_read(FA_SIMT_SITE) {
  detail::tma_store_wait(N, true, line, file);
}
template <int N>
void tma_store_wait(FA_SIMT_SITE) {
  detail::tma_store_wait(N, false, line, file);
}

// ---- wgmma: four warps, the first a multiple of four, multiply matrices together

enum class Major { k, mn };  // which elements of an operand are neighbours in shared memory

/// Starts D = A B, or D += A B with `accumulate`. A [64, 16] and B [16, N] have type T (bf16 or
/// fp16); D [64, N] is fp32. With T = e4m3, A is [64, 32] and B [32, N], both K-major. Thread t of
/// 128 holds in d[j][i] the element in row 16 (t / 32) + t % 32 / 4 + 8 (i / 2) and column 8 j + 2
/// (t % 4) + i % 2. A in registers has the layout of mma_m16n8k16, with 16 rows per warp, where two
/// e4m3 values take the place of one 16-bit value. The emulator computes nothing before wgmma_wait.
/// common/tensor_core.hpp describes how the sums are rounded. PTX:
/// wgmma.mma_async.sync.aligned.m64nNk16.f32, m64nNk32.f32.e4m3.e4m3.
template <class T, Major MAJOR_A = Major::k, Major MAJOR_B = Major::k, int N8>
void wgmma(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b, bool accumulate,
           FA_SIMT_SITE) {
  static_assert(N8 >= 1 && N8 <= 32, "n is 8 to 256");
  static_assert(!std::is_same_v<T, fa::e4m3> || MAJOR_B == Major::k, "8 bits are K-major");
  detail::wgmma(&d[0][0], N8 * 8, nullptr, descriptor_a, descriptor_b, accumulate,
                MAJOR_A == Major::mn, MAJOR_B == Major::mn, detail::wgmma_type<T>(), line, file);
}
template <class T, Major MAJOR_B = Major::k, int N8>
void wgmma(float (&d)[N8][4], uint32_t (&a)[4], uint64_t descriptor_b, bool accumulate,
           FA_SIMT_SITE) {
  static_assert(N8 >= 1 && N8 <= 32, "n is 8 to 256");
  static_assert(!std::is_same_v<T, fa::e4m3> || MAJOR_B == Major::k, "8 bits are K-major");
  detail::wgmma(&d[0][0], N8 * 8, a, 0, descriptor_b, accumulate, false, MAJOR_B == Major::mn,
                detail::wgmma_type<T>(), line, file);
}

/// Orders ordinary accesses to the registers of a wgmma before that wgmma. Required before the
/// first wgmma, and again after ordinary instructions have used its registers. PTX: wgmma.fence.
void wgmma_fence(FA_SIMT_SITE);
/// Closes the current group of wgmma instructions. PTX: wgmma.commit_group.
void wgmma_commit(FA_SIMT_SITE);
/// Waits until at most N groups are in flight. The arguments are the accumulators that the thread
/// may use again afterwards. They must be named, because a GPU's compiler sees no other dependence
/// between them and the wait and could read them too early. PTX: wgmma.wait_group.
template <int N>
void wgmma_wait(FA_SIMT_SITE) {
  detail::wgmma_wait(N, {}, line, file);
}
template <int N, int N8>
void wgmma_wait(float (&a)[N8][4], FA_SIMT_SITE) {
  detail::wgmma_wait(N, {&a[0][0]}, line, file);
}
template <int N, int A8, int B8>
void wgmma_wait(float (&a)[A8][4], float (&b)[B8][4], FA_SIMT_SITE) {
  detail::wgmma_wait(N, {&a[0][0], &b[0][0]}, line, file);
}

/// Does nothing on the emulator. On a GPU it makes the compiler treat these registers as written
/// here, so that it keeps earlier instructions before this point.
template <int N8>
void written_by_wgmma(float (&)[N8][4]) {}

// ---- Roles

/// Set the registers per thread of this warpgroup. An increase waits until other warpgroups have
/// released enough. PTX: setmaxnreg.
template <int REGISTERS>
void setmaxnreg_inc(FA_SIMT_SITE) {
  static_assert(REGISTERS >= 24 && REGISTERS <= 256 && REGISTERS % 8 == 0, "24 to 256, by eights");
  detail::setmaxnreg(true, REGISTERS, line, file);
}
template <int REGISTERS>
void setmaxnreg_dec(FA_SIMT_SITE) {
  static_assert(REGISTERS >= 24 && REGISTERS <= 256 && REGISTERS % 8 == 0, "24 to 256, by eights");
  detail::setmaxnreg(false, REGISTERS, line, file);
}

/// True in exactly one lane of the warp, always the same one. PTX: elect.sync.
bool elect_one(FA_SIMT_SITE);

/// Like barrier_sync, and returns whether `condition` is true in any of the participating threads.
/// PTX: barrier.red.or.pred.
bool barrier_red_or(int barrier, int threads, bool condition, FA_SIMT_SITE);

// ---- Clusters: up to 8 blocks that run at the same time (LaunchConfig::cluster)

/// Return this block's number in its cluster, where x varies fastest, and the number of blocks in
/// the cluster. A launch without clusters gives 0 and 1. PTX: %cluster_ctarank, %cluster_nctarank.
int cluster_rank();
int cluster_size();

/// Waits for all threads of the cluster that have not returned. Orders their accesses to global
/// memory and, within each block, to shared memory. A thread that has returned does not arrive, so
/// its accesses are not ordered. Different warps may call it from different lines. PTX:
/// barrier.cluster.arrive.release.aligned, barrier.cluster.wait.acquire.aligned.
void cluster_sync(FA_SIMT_SITE);
void cluster_sync(const char* label, FA_SIMT_SITE);

}  // namespace emulator

#undef FA_SIMT_SITE
