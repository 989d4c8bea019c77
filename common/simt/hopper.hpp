#pragma once
// What a kernel may call on a Hopper GPU besides what device.hpp has: mbarriers, tensor copies,
// wgmma, register budgets, clusters. common/gpu/hopper.hpp declares the same for the GPU. Addresses
// are those of shared memory, as dynamic_smem gives them. "PTX:" names the instruction that each
// stands for.

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "common/simt/device.hpp"
#include "common/tensor_map.hpp"

#define FA_SIMT_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()

namespace emulator {

using fa::Swizzle;

// ---- mbarriers: 8 bytes of shared memory, at a multiple of 8

/// Phase 0 begins: it takes `arrivals`. By one thread; all others must be ordered behind it.
/// PTX: mbarrier.init.
void mbarrier_init(uint32_t mbarrier, int arrivals, FA_SIMT_SITE);
/// Tensor copies, too, now see the mbarriers that this thread has initialized.
/// PTX: fence.mbarrier_init.release.cluster.
void fence_mbarrier_init(FA_SIMT_SITE);
/// Its bytes are free for other use. PTX: mbarrier.inval.
void mbarrier_inval(uint32_t mbarrier, FA_SIMT_SITE);

/// One arrival for the current phase, which comes after all that this thread did.
/// PTX: mbarrier.arrive.
void mbarrier_arrive(uint32_t mbarrier, FA_SIMT_SITE);
/// The current phase takes so many bytes more. PTX: mbarrier.expect_tx.
void mbarrier_expect_tx(uint32_t mbarrier, uint32_t bytes, FA_SIMT_SITE);
/// Both, bytes first. PTX: mbarrier.arrive.expect_tx.
void mbarrier_arrive_expect_tx(uint32_t mbarrier, uint32_t bytes, FA_SIMT_SITE);

/// Is the phase of this parity complete? That is: has the current one the other parity? Of a fresh
/// mbarrier, parity 1 is. PTX: mbarrier.try_wait.parity.
bool mbarrier_try_wait(uint32_t mbarrier, int parity, FA_SIMT_SITE);
/// Waits until it is. What came before the arrivals, and the bytes that the phase took, are then
/// this thread's to read.
void mbarrier_wait(uint32_t mbarrier, int parity, FA_SIMT_SITE);
void mbarrier_wait(uint32_t mbarrier, int parity, const char* label, FA_SIMT_SITE);

/// Orders ordinary accesses to shared memory before what wgmma and tensor copies do: the stores of
/// this thread, and those that are ordered before this fence. A copy or a wgmma that is ordered
/// after the fence sees them. PTX: fence.proxy.async.shared::cta.
void fence_proxy_async(FA_SIMT_SITE);
/// The same for what has been stored in global memory and a tensor copy of this launch uses.
/// PTX: fence.proxy.async.global.
void fence_proxy_async_global(FA_SIMT_SITE);

// ---- Matrices into shared memory

/// The reverse of ldmatrix_x4: lane 8i + j gives the address of row j of matrix i, and lane t
/// stores elements 2(t%4), 2(t%4)+1 of row t/4 from r[i].
/// PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16.
void stmatrix_x4(uint32_t addr, const uint32_t (&r)[4], FA_SIMT_SITE);

// ---- Tensor copies (TMA): one thread copies a box of a tensor

/// A kernel's parameter: `FA_GRID_CONSTANT const TensorMap map`.
struct TensorMap {
  fa::TensorBox box;
};

namespace detail {
void note_tensor_map(const fa::TensorBox& box);  // the emulator watches stores to such memory
}

/// Of a tensor of 1 to 5 dimensions, the innermost first: sizes in elements; strides of the others
/// in bytes; the box that one instruction copies. Throws fa::InputError.
template <class T>
TensorMap make_tensor_map(const T* data, std::initializer_list<int64_t> sizes,
                          std::initializer_list<int64_t> strides, std::initializer_list<int> box,
                          Swizzle swizzle) {
  const TensorMap map = {fa::make_tensor_box(data, sizeof(T), sizes, strides, box, swizzle)};
  detail::note_tensor_map(map.box);
  return map;
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

/// Starts copying the box whose first element has these coordinates to `dst`, a multiple of 128
/// (of 1024, if the 128-byte swizzle is to begin there). Elements outside the tensor become zeros.
/// The mbarrier is told of the whole box's bytes, also at the edges. x times the size of an element
/// is a multiple of 16, or an H200 calls it an illegal instruction.
/// PTX: cp.async.bulk.tensor.{1..5}d.shared::cluster.global.mbarrier::complete_tx::bytes.
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

/// Starts copying a box from shared memory; elements outside the tensor are not stored, unless they
/// share 16 bytes with one inside. x as in a load; a negative coordinate is an illegal instruction.
/// PTX: cp.async.bulk.tensor.{1..5}d.global.shared::cta.bulk_group.
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
/// Starts adding `bytes` of fp32 numbers in shared memory to those at `dst`, each in one step with
/// respect to other adds. Both addresses and `bytes` are multiples of 16. A store as far as groups
/// and waits go. PTX: cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32.
void bulk_reduce_add(float* dst, uint32_t src, uint32_t bytes, FA_SIMT_SITE);
/// Closes this thread's group of stores. PTX: cp.async.bulk.commit_group.
void tma_store_commit(FA_SIMT_SITE);
/// Waits until at most N of this thread's groups have not read their shared memory yet; or, without
/// `read`, have not written theirs. PTX: cp.async.bulk.wait_group.read, cp.async.bulk.wait_group.
template <int N>
void tma_store_wait_read(FA_SIMT_SITE) {
  detail::tma_store_wait(N, true, line, file);
}
template <int N>
void tma_store_wait(FA_SIMT_SITE) {
  detail::tma_store_wait(N, false, line, file);
}

// ---- wgmma: four warps, the first a multiple of four, multiply together

enum class Major { k, mn };  // which elements of an operand lie side by side in shared memory

/// D = A B, plus D if `accumulate`: A [64, 16], B [16, N], D [64, N], in T = bf16 or fp16, sums in
/// fp32. T = e4m3: A [64, 32], B [32, N], both K-major; in registers, byte by byte what two 16-bit
/// numbers are in the 16 k of the other types. Thread t of 128 holds d[j][i]: row
/// 16 (t / 32) + t % 32 / 4 + 8 (i / 2), column 8 j + 2 (t % 4) + i % 2. A in registers is laid out
/// as for mma_m16n8k16, 16 rows a warp. Nothing of it happens before wgmma_wait. Sums:
/// common/tensor_core.hpp. PTX:
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

/// Before the first wgmma, and whenever ordinary instructions have used its registers.
/// PTX: wgmma.fence.
void wgmma_fence(FA_SIMT_SITE);
/// Closes the group of wgmma. PTX: wgmma.commit_group.
void wgmma_commit(FA_SIMT_SITE);
/// Waits until at most N groups are in flight. It names the accumulators that are the thread's
/// again then: a GPU's compiler sees no other link between them and the wait, and could read them
/// before. PTX: wgmma.wait_group.
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

/// Nothing here. On a GPU the compiler takes these registers for written, and keeps what stands
/// before it before it.
template <int N8>
void written_by_wgmma(float (&)[N8][4]) {}

// ---- Roles

/// Each thread of the warpgroup has so many registers from now on; more of them only when others
/// have given theirs up. PTX: setmaxnreg.
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

/// True in one lane of the warp, always the same. PTX: elect.sync.
bool elect_one(FA_SIMT_SITE);

/// barrier_sync that says whether `condition` is true in any of its threads.
/// PTX: barrier.red.or.pred.
bool barrier_red_or(int barrier, int threads, bool condition, FA_SIMT_SITE);

// ---- Clusters: up to 8 blocks that run at the same time (LaunchConfig::cluster)

/// This block's number in its cluster, x fastest, and how many there are: 0 and 1 in a launch
/// without clusters. PTX: %cluster_ctarank, %cluster_nctarank.
int cluster_rank();
int cluster_size();

/// Waits for all threads of the cluster that have not returned; orders their accesses to global
/// memory, and within each block to shared memory. What a thread did that has returned is not
/// ordered: it has not arrived. Different warps may call it from different lines.
/// PTX: barrier.cluster.arrive.release.aligned, barrier.cluster.wait.acquire.aligned.
void cluster_sync(FA_SIMT_SITE);
void cluster_sync(const char* label, FA_SIMT_SITE);

}  // namespace emulator

#undef FA_SIMT_SITE
