#pragma once
// The instructions that a kernel may call on the emulator. common/gpu/device.hpp declares the same
// functions for the GPU, and common/backend.hpp includes one of the two. The last two parameters of
// each function are the source line and file of the call, which reports print. A wrapper should
// take these parameters and pass them on if its caller is the better place to report. "PTX:" names
// the instruction that a function stands for (PTX ISA, "Data Movement and Conversion Instructions"
// and "Warp Level Matrix Multiply-Accumulate Instructions").

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "common/fp8.hpp"
#include "common/half.hpp"
#include "common/launch_config.hpp"

// Source position of a call. backend.hpp defines the same for kernels.
#define FA_SIMT_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()

namespace emulator {

using fa::bf16;
using fa::Dim3;
using fa::fp16;
using fa::LaunchConfig;

/// Return threadIdx.x and blockIdx.x, which suffice for a launch in one dimension.
int thread_index();
int block_index();

/// Return threadIdx, blockIdx, blockDim and gridDim. Threads are numbered with x fastest, then y,
/// then z; 32 consecutive ones form a warp.
Dim3 thread_index_3d();
Dim3 block_index_3d();
Dim3 block_size();
Dim3 grid_size();

/// Returns the byte address of the block's dynamic shared memory in the .shared window, a multiple
/// of 1024. It is not 0, because the system reserves the first 1024 bytes, as on hardware.
uint32_t dynamic_smem();

/// Starts copying 16 bytes from global to shared memory. Both addresses are multiples of 16. Only
/// the first source_bytes (0 to 16) are read, and the remaining bytes become zeros. The bytes land
/// when this thread waits for them, and until then the destination holds NaN. PTX:
/// cp.async.cg.shared.global.
void cp_async_16(uint32_t dst, const void* src, int source_bytes, FA_SIMT_SITE);

/// Closes this thread's current group of copies, which may be empty. PTX: cp.async.commit_group.
void cp_async_commit(FA_SIMT_SITE);

namespace detail {  // called by the templates below, and not by kernels
// Pattern in the accumulators of a wgmma in flight, which is a signalling NaN whose last bits hold
// the number of the wgmma. Arithmetic makes it quiet and may change its sign, but x86 and Arm keep
// the other bits.
inline constexpr uint32_t kPoisons = 1024, kPoison = 0x7fa5'c000;
inline bool is_poison(uint32_t bits) { return (bits & (0x7fbf'ffff & ~(kPoisons - 1))) == kPoison; }
/// Reports a use of `bits` at this place if they come from accumulators in flight.
void check_landed(uint32_t bits, int line, const char* file);
inline float checked(float x, int line, const char* file) {
  if (x != x) [[unlikely]]
    check_landed(std::bit_cast<uint32_t>(x), line, file);
  return x;
}
// cp_async_16 for copies of 4, 8 or 16 bytes.
void cp_async(uint32_t dst, const void* src, int copy_bytes, int source_bytes, int line,
              const char* file);
void cp_async_wait(int pending_groups, const char* label, int line, const char* file);
void ldmatrix(uint32_t* r, int count, bool trans, uint32_t addr, int line, const char* file);
void load_global(void* value, const void* p, size_t bytes, int line, const char* file);
void store_global(void* p, const void* value, size_t bytes, int line, const char* file);
void load_shared(void* value, uint32_t addr, size_t bytes, int line, const char* file);
void store_shared(uint32_t addr, const void* value, size_t bytes, int line, const char* file);
void launch(const std::function<void()>& thread, const LaunchConfig& config);
template <class T>
inline constexpr bool kPlain = std::is_trivially_copyable_v<T> && sizeof(T) <= 16 &&
                               (sizeof(T) & (sizeof(T) - 1)) == 0;
}  // namespace detail

/// Waits until at most N of this thread's groups are in flight. The bytes of the other groups are
/// then visible to this thread, but other threads need a barrier as well. PTX: cp.async.wait_group.
template <int N>
void cp_async_wait(FA_SIMT_SITE) {
  static_assert(N >= 0, "wait_group counts the groups that may stay in flight");
  detail::cp_async_wait(N, "", line, file);
}
template <int N>
void cp_async_wait(const char* label, FA_SIMT_SITE) {
  static_assert(N >= 0, "wait_group counts the groups that may stay in flight");
  detail::cp_async_wait(N, label, line, file);
}

/// Load 1, 2 or 4 matrices of 8x8 16-bit elements. Lane 8i + j passes the address of row j of
/// matrix i; x1 ignores the addresses of lanes 8 and up, x2 those of lanes 16 and up. Lane t
/// receives elements 2(t%4) and 2(t%4)+1 of row t/4, or of column t/4 if it is transposed. PTX:
/// ldmatrix.sync.aligned.m8n8.b16.
inline void ldmatrix_x1(uint32_t (&r)[1], uint32_t addr, FA_SIMT_SITE) {
  detail::ldmatrix(r, 1, false, addr, line, file);
}
inline void ldmatrix_x1_trans(uint32_t (&r)[1], uint32_t addr, FA_SIMT_SITE) {
  detail::ldmatrix(r, 1, true, addr, line, file);
}
inline void ldmatrix_x2(uint32_t (&r)[2], uint32_t addr, FA_SIMT_SITE) {
  detail::ldmatrix(r, 2, false, addr, line, file);
}
inline void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t addr, FA_SIMT_SITE) {
  detail::ldmatrix(r, 2, true, addr, line, file);
}
inline void ldmatrix_x4(uint32_t (&r)[4], uint32_t addr, FA_SIMT_SITE) {
  detail::ldmatrix(r, 4, false, addr, line, file);
}
inline void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t addr, FA_SIMT_SITE) {
  detail::ldmatrix(r, 4, true, addr, line, file);
}

/// c += a @ b with a [16,16], b [16,8] and c [16,8], distributed over the warp as in the figures of
/// the PTX ISA, "Matrix Fragments for mma.m16n8k16". a and b hold pairs of bf16 (or fp16, with T =
/// fp16); c is fp32. The sums have the same bits as on an H100 (common/tensor_core.hpp). PTX:
/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 or …f32.f16.f16.f32.
template <class T>
void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], FA_SIMT_SITE);
void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], FA_SIMT_SITE);

/// c += a @ b for signed 8-bit integers: a [16,32], b [32,8], c [16,8] int32, exact modulo 2^32.
/// PTX: mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32.
void mma_m16n8k32_s8(const uint32_t (&a)[4], const uint32_t (&b)[2], int (&c)[4], FA_SIMT_SITE);

/// Returns the value of lane (own lane ^ lane_mask), 0 <= lane_mask < 32. PTX: shfl.sync.bfly.b32.
float shfl_xor(float value, int lane_mask, FA_SIMT_SITE);
inline uint32_t shfl_xor(uint32_t value, int lane_mask, FA_SIMT_SITE) {
  return std::bit_cast<uint32_t>(shfl_xor(std::bit_cast<float>(value), lane_mask, line, file));
}

/// Returns the value of lane `source`, 0 <= source < 32. Lanes may name different sources. PTX:
/// shfl.sync.idx.b32.
int shfl(int value, int source, FA_SIMT_SITE);
inline float shfl(float value, int source, FA_SIMT_SITE) {
  return std::bit_cast<float>(shfl(std::bit_cast<int>(value), source, line, file));
}

/// True in all lanes if `condition` is true in any of them. PTX: vote.sync.any.
bool warp_any(bool condition, FA_SIMT_SITE);

/// Waits for all threads of the block and orders their accesses. A barrier or a wait may have a
/// label, which is a string literal; fa::simt::Config::leave_out can name it. PTX: barrier.sync 0.
void block_sync(FA_SIMT_SITE);
void block_sync(const char* label, FA_SIMT_SITE);

/// Waits for all lanes of the warp and orders their accesses. PTX: bar.warp.sync.
void warp_sync(FA_SIMT_SITE);
void warp_sync(const char* label, FA_SIMT_SITE);

/// Barrier 1 to 15 for `threads` threads, in whole warps. Threads that arrive and threads that wait
/// are counted together. The last one completes the barrier, which can then be used again.
/// barrier_sync waits, and everything that the participating threads did before is visible
/// afterwards. barrier_arrive returns immediately. Different warps may call them from different
/// lines. PTX: barrier.sync, barrier.arrive.
void barrier_sync(int barrier, int threads, FA_SIMT_SITE);
void barrier_arrive(int barrier, int threads, FA_SIMT_SITE);

/// Plain accesses of 2, 4, 8 or 16 bytes (in global memory also 1), aligned to their size. An
/// access out of bounds is a hazard, after which the load returns NaN and the store does nothing.
/// PTX: ld/st.global, ld/st.shared.
template <class T>
T load_global(const T* p, FA_SIMT_SITE) {
  static_assert(detail::kPlain<T>, "a load moves 1, 2, 4, 8 or 16 plain bytes");
  T value;
  detail::load_global(&value, p, sizeof(T), line, file);
  return value;
}
template <class T>
void store_global(T* p, std::type_identity_t<T> value, FA_SIMT_SITE) {
  static_assert(detail::kPlain<T>, "a store moves 1, 2, 4, 8 or 16 plain bytes");
  detail::store_global(p, &value, sizeof(T), line, file);
}
template <class T>
T load_shared(uint32_t addr, FA_SIMT_SITE) {
  static_assert(detail::kPlain<T> && sizeof(T) > 1, "a load moves 2, 4, 8 or 16 plain bytes");
  T value;
  detail::load_shared(&value, addr, sizeof(T), line, file);
  return value;
}
template <class T>
void store_shared(uint32_t addr, std::type_identity_t<T> value, FA_SIMT_SITE) {
  static_assert(detail::kPlain<T> && sizeof(T) > 1, "a store moves 2, 4, 8 or 16 plain bytes");
  detail::store_shared(addr, &value, sizeof(T), line, file);
}

/// *p += value, atomically on the whole GPU. Returns the old value. It orders no other accesses;
/// use thread_fence for that. PTX: atom.relaxed.gpu.global.add.
float atomic_add(float* p, float value, FA_SIMT_SITE);
int atomic_add(int* p, int value, FA_SIMT_SITE);

/// Read and write a flag between blocks. Everything that a thread did and knew before a
/// store_release is ordered before what another thread does after the load_acquire that reads the
/// value. PTX: ld.acquire.gpu, st.release.gpu.
int load_acquire(const int* p, FA_SIMT_SITE);
void store_release(int* p, int value, FA_SIMT_SITE);

/// Makes an atomic_add a release if the fence comes before it, and an acquire if the fence comes
/// after it. PTX: fence.acq_rel.gpu (__threadfence).
void thread_fence(FA_SIMT_SITE);

/// Returns `value`. A GPU's compiler does not know that the value is unchanged. Therefore it
/// computes expressions that depend on it where they are used, instead of keeping them in
/// registers.
inline int opaque(int value) { return value; }

/// Report, for counts and figures, that this block works on a row of `columns` tiles, and that it
/// visits one of them. Calls by thread 0 are recorded in Report::tiles. On a GPU they do nothing.
void tile_row(int row, int columns);
void tile_visit(int column, bool masked);

/// Returns two floats rounded to bf16, to nearest even; `low` is in the low 16 bits. PTX:
/// cvt.rn.bf16x2.f32.
inline uint32_t pack_bf16x2(float low, float high, FA_SIMT_SITE) {
  return static_cast<uint32_t>(fa::to_bf16(detail::checked(low, line, file)).bits) |
         static_cast<uint32_t>(fa::to_bf16(detail::checked(high, line, file)).bits) << 16;
}

/// The same for T = bf16 or fp16.
template <class T>
uint32_t pack(float low, float high, FA_SIMT_SITE) {
  return static_cast<uint32_t>(fa::from_float<T>(detail::checked(low, line, file)).bits) |
         static_cast<uint32_t>(fa::from_float<T>(detail::checked(high, line, file)).bits) << 16;
}

/// Returns four floats rounded to e4m3, to nearest even; `a` is in the lowest byte. Magnitudes
/// above 448 become 448. PTX: cvt.rn.satfinite.e4m3x2.f32, twice.
inline uint32_t pack_e4m3x4(float a, float b, float c, float d, FA_SIMT_SITE) {
  const auto byte = [&](float value, int place) {
    return static_cast<uint32_t>(fa::to_e4m3(detail::checked(value, line, file)).bits) << place * 8;
  };
  return byte(a, 0) | byte(b, 1) | byte(c, 2) | byte(d, 3);
}

/// Return the value of type T in the low or high half of a register as a float.
template <class T>
float unpack_low(uint32_t packed) {
  return fa::to_float(T{static_cast<uint16_t>(packed)});
}
template <class T>
float unpack_high(uint32_t packed) {
  return fa::to_float(T{static_cast<uint16_t>(packed >> 16)});
}

inline float exp(float x, FA_SIMT_SITE) { return std::exp(detail::checked(x, line, file)); }
inline float exp2(float x, FA_SIMT_SITE) { return std::exp2(detail::checked(x, line, file)); }
inline float log(float x, FA_SIMT_SITE) { return std::log(detail::checked(x, line, file)); }
inline float sqrt(float x, FA_SIMT_SITE) { return std::sqrt(detail::checked(x, line, file)); }
/// Rounds to nearest even. Saturates, and NaN gives 0. PTX: cvt.rni.s32.f32.
inline int round_to_int(float x, FA_SIMT_SITE) {
  if (std::isnan(detail::checked(x, line, file))) return 0;
  return static_cast<int>(std::clamp<double>(std::nearbyint(x), INT32_MIN, INT32_MAX));
}
inline float float_from_bits(int bits) { return std::bit_cast<float>(bits); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }  // a * b + c
inline float max(float a, float b, FA_SIMT_SITE) {  // PTX max: if one argument is NaN, returns the
                                                    // other
  return std::fmax(detail::checked(a, line, file), detail::checked(b, line, file));
}

/// Returns the number of SMs of an H200, so that emulator and GPU run the same number of blocks.
inline int multiprocessors() { return 132; }

/// Runs config.grid blocks of config.block threads. Each thread calls kernel(args...). Returns when
/// all are done, and ignores config.stream. Throws fa::InputError for a launch that no GPU accepts,
/// and rethrows exceptions of the kernel.
template <class... P, class... A>
void launch(void (*kernel)(P...), const LaunchConfig& config, A... args) {
  detail::launch([&] { kernel(static_cast<P>(args)...); }, config);
}

/// The same for one dimension.
template <class... P, class... A>
void launch(void (*kernel)(P...), int grid, int block, size_t smem_bytes, A... args) {
  launch(kernel, LaunchConfig{grid, block, smem_bytes}, args...);
}

}  // namespace emulator

#undef FA_SIMT_SITE
