#pragma once
// The instructions that a kernel may call on a GPU, as PTX of sm_80 and later, one function per
// instruction. common/simt/device.hpp declares and documents the same functions for the emulator.
//
// `volatile` keeps the order of these instructions. The "memory" clobber keeps the compiler from
// moving other memory accesses across those that read memory, write it or wait for it.

#include <cstdint>
#include <type_traits>

#include "common/half.hpp"
#include "common/launch_config.hpp"

// Source position of a call, which only the emulator uses.
#define FA_SITE int = 0, const char* = nullptr

namespace gpu {

using fa::Dim3;

FA_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
FA_DEVICE int block_index() { return static_cast<int>(blockIdx.x); }

// The same in up to three dimensions, and the sizes of block and grid.
FA_DEVICE Dim3 thread_index_3d() {
  return {static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y),
          static_cast<int>(threadIdx.z)};
}
FA_DEVICE Dim3 block_index_3d() {
  return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
}
FA_DEVICE Dim3 block_size() {
  return {static_cast<int>(blockDim.x), static_cast<int>(blockDim.y), static_cast<int>(blockDim.z)};
}
FA_DEVICE Dim3 grid_size() {
  return {static_cast<int>(gridDim.x), static_cast<int>(gridDim.y), static_cast<int>(gridDim.z)};
}

// Byte address of the block's dynamic shared memory in the shared window, which PTX takes.
FA_DEVICE uint32_t dynamic_smem() {
  extern __shared__ __align__(1024) unsigned char smem[];
  return static_cast<uint32_t>(__cvta_generic_to_shared(smem));
}

// Starts copying 16 bytes from global to shared memory. The copy bypasses the registers and the L1
// cache (cg). Only the first `source_bytes` are read, and the rest of the 16 become zero.
FA_DEVICE void cp_async_16(uint32_t dst, const void* src, int source_bytes, FA_SITE) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst),
               "l"(__cvta_generic_to_global(src)), "r"(source_bytes)
               : "memory");
}

// Closes the group of all copies that this thread has started since the last commit.
FA_DEVICE void cp_async_commit(FA_SITE) { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most N of this thread's groups, the most recent ones, are in flight.
template <int N>
FA_DEVICE void cp_async_wait(FA_SITE) {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
template <int N>
FA_DEVICE void cp_async_wait(const char*, FA_SITE) {  // with a label for the emulator
  cp_async_wait<N>();
}

// Loads 8x8 matrices of 16-bit elements from shared memory. Lane 8 i + r passes the address of row
// r of matrix i. Register i then holds two adjacent elements of row lane/4, or of column lane/4 if
// it is transposed.
FA_DEVICE void ldmatrix_x1(uint32_t (&r)[1], uint32_t addr, FA_SITE) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(r[0])
               : "r"(addr)
               : "memory");
}
FA_DEVICE void ldmatrix_x1_trans(uint32_t (&r)[1], uint32_t addr, FA_SITE) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(r[0])
               : "r"(addr)
               : "memory");
}
FA_DEVICE void ldmatrix_x2(uint32_t (&r)[2], uint32_t addr, FA_SITE) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(addr)
               : "memory");
}
FA_DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t addr, FA_SITE) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(addr)
               : "memory");
}
FA_DEVICE void ldmatrix_x4(uint32_t (&r)[4], uint32_t addr, FA_SITE) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr)
               : "memory");
}
FA_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t addr, FA_SITE) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr)
               : "memory");
}

// c += a @ b with a [16, 16] row-major and b [16, 8] column-major, both bf16, and c [16, 8] fp32.
FA_DEVICE void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4],
                            FA_SITE) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for T = bf16 or fp16.
template <class T>
FA_DEVICE void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4],
                            FA_SITE) {
  if constexpr (std::is_same_v<T, fa::bf16>) return mma_m16n8k16(a, b, c);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for signed 8-bit integers: a [16, 32], b [32, 8], c [16, 8] int32.
FA_DEVICE void mma_m16n8k32_s8(const uint32_t (&a)[4], const uint32_t (&b)[2], int (&c)[4],
                               FA_SITE) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Returns the value of lane (own lane XOR lane_mask). All 32 lanes take part.
FA_DEVICE float shfl_xor(float value, int lane_mask, FA_SITE) {
  return __shfl_xor_sync(0xffff'ffffu, value, lane_mask);
}
FA_DEVICE uint32_t shfl_xor(uint32_t value, int lane_mask, FA_SITE) {
  return __shfl_xor_sync(0xffff'ffffu, value, lane_mask);
}

// Returns the value of lane `source`. Lanes may name different sources.
FA_DEVICE int shfl(int value, int source, FA_SITE) {
  return __shfl_sync(0xffff'ffffu, value, source);
}

FA_DEVICE float shfl(float value, int source, FA_SITE) {
  return __shfl_sync(0xffff'ffffu, value, source);
}

// True in all lanes if `condition` is true in any of the warp's 32 lanes.
FA_DEVICE bool warp_any(bool condition, FA_SITE) { return __any_sync(0xffff'ffffu, condition); }

FA_DEVICE void block_sync(FA_SITE) { __syncthreads(); }
FA_DEVICE void warp_sync(FA_SITE) { __syncwarp(); }
FA_DEVICE void block_sync(const char*, FA_SITE) {
  __syncthreads();
}  // with a label for the
   // emulator
FA_DEVICE void warp_sync(const char*, FA_SITE) { __syncwarp(); }

// Named barriers 1 to 15 for `threads` threads, in whole warps. barrier_sync waits there;
// barrier_arrive only counts the caller.
FA_DEVICE void barrier_sync(int barrier, int threads, FA_SITE) {
  asm volatile("barrier.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
FA_DEVICE void barrier_arrive(int barrier, int threads, FA_SITE) {
  asm volatile("barrier.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

template <class T>
FA_DEVICE T load_global(const T* p, FA_SITE) {
  return *p;
}
template <class T>
FA_DEVICE void store_global(T* p, std::type_identity_t<T> value, FA_SITE) {
  *p = value;
}

template <class T>
FA_DEVICE T load_shared(uint32_t addr, FA_SITE) {
  return *static_cast<const T*>(__cvta_shared_to_generic(addr));
}
template <class T>
FA_DEVICE void store_shared(uint32_t addr, std::type_identity_t<T> value, FA_SITE) {
  *static_cast<T*>(__cvta_shared_to_generic(addr)) = value;
}

// *p += value, atomically on the whole GPU. Returns the old value.
FA_DEVICE float atomic_add(float* p, float value, FA_SITE) { return atomicAdd(p, value); }
FA_DEVICE int atomic_add(int* p, int value, FA_SITE) { return atomicAdd(p, value); }

// Read and write a flag between blocks. thread_fence gives atomic_add the same ordering.
FA_DEVICE int load_acquire(const int* p, FA_SITE) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return value;
}
FA_DEVICE void store_release(int* p, int value, FA_SITE) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(value)
               : "memory");
}
FA_DEVICE void thread_fence(FA_SITE) { __threadfence(); }

// Returns `value`, but the compiler does not know that it is unchanged. Therefore it computes
// expressions that depend on it where they are used, instead of keeping them in registers
// throughout a loop.
FA_DEVICE int opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// The emulator records these calls for its counts and figures.
FA_DEVICE void tile_row(int, int) {}
FA_DEVICE void tile_visit(int, bool) {}

// Returns two floats as two bf16 in one register, rounded to nearest even, where `low` is in the
// low half.
FA_DEVICE uint32_t pack_bf16x2(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// The same for T = bf16 or fp16.
template <class T>
FA_DEVICE uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, fa::bf16>) return pack_bf16x2(low, high);
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Returns four floats as four e4m3 in one register, rounded to nearest even; `a` is in the lowest
// byte. Magnitudes above 448 become 448. Needs sm_89 or later.
FA_DEVICE uint32_t pack_e4m3x4(float a, float b, float c, float d) {
  uint32_t packed;
  asm("{.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};}"
      : "=r"(packed)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return packed;
}

// Return the value of type T (bf16 or fp16) in the low or high half of a register as a float.
template <class T>
FA_DEVICE float unpack_low(uint32_t packed) {
  if constexpr (std::is_same_v<T, fa::bf16>) return __uint_as_float(packed << 16);
  float value;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}"
      : "=f"(value)
      : "r"(packed));
  return value;
}
template <class T>
FA_DEVICE float unpack_high(uint32_t packed) {
  if constexpr (std::is_same_v<T, fa::bf16>) return __uint_as_float(packed & 0xffff'0000u);
  return unpack_low<T>(packed >> 16);
}

// Returns 2^x, computed by the hardware. Results below 2^-126 become zero (ftz). Without ftz, the
// compiler adds instructions to each exponential that preserve such small results, but they are too
// small to change any sum here.
FA_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FA_DEVICE float exp(float x) { return exp2(x * 1.44269504f); }  // e^x = 2^(x log2 e)

// The hardware's lg2, times ln 2. Its error is 2^-22 for arguments of 1 and above.
FA_DEVICE float log(float x) { return __logf(x); }

FA_DEVICE float sqrt(float x) { return sqrtf(x); }
FA_DEVICE float max(float a, float b) { return fmaxf(a, b); }
FA_DEVICE int round_to_int(float x) { return __float2int_rn(x); }
FA_DEVICE float float_from_bits(int bits) { return __int_as_float(bits); }
FA_DEVICE float fma(float a, float b, float c) { return fmaf(a, b, c); }  // a * b + c

}  // namespace gpu

#undef FA_SITE
