// Inline PTX of one thread or one warp: integers, bits, 16-bit floats, conversions, atomics,
// shuffles, votes. Each result is compared with the host's.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

// clang-format off
#define TWO(name, text, T, r) \
  __device__ T name(T a, T b) { T d; asm(text " %0, %1, %2;" : "=" r(d) : r(a), r(b)); return d; }
TWO(mul_hi_u, "mul.hi.u32", uint32_t, "r")
TWO(mul_hi_s, "mul.hi.s32", int, "r")
TWO(div_s, "div.s32", int, "r")
TWO(rem_u, "rem.u32", uint32_t, "r")
TWO(add_sat, "add.sat.s32", int, "r")
TWO(min_nan, "min.NaN.f32", float, "f")
TWO(half_add, "add.f16x2", uint32_t, "r")
TWO(half_max, "max.f16x2", uint32_t, "r")
TWO(bf_mul, "mul.rn.bf16x2", uint32_t, "r")
TWO(sign_of, "copysign.f32", float, "f")
#define ONE(name, text, T, r) \
  __device__ T name(T a) { T d; asm(text " %0, %1;" : "=" r(d) : r(a)); return d; }
ONE(popc, "popc.b32", uint32_t, "r")
ONE(clz, "clz.b32", uint32_t, "r")
ONE(brev, "brev.b32", uint32_t, "r")
ONE(bfind_u, "bfind.u32", uint32_t, "r")
ONE(bfind_s, "bfind.s32", int, "r")
ONE(abs_s, "abs.s32", int, "r")
ONE(half_exp, "ex2.approx.f16x2", uint32_t, "r")
// clang-format on

template <class T>
__device__ uint32_t bits(T value) {
  uint32_t word;
  memcpy(&word, &value, 4);
  return word;
}

__global__ void scalars(uint32_t* out) {
  int n = 0;
  out[n++] = mul_hi_u(0xfffffff0u, 0x12345678u);
  out[n++] = mul_hi_s(-5, 0x12345678);
  out[n++] = div_s(-17, 5);
  out[n++] = rem_u(17, 5);
  out[n++] = add_sat(0x7ffffff0, 100);
  out[n++] = bits(min_nan(1.0f, NAN)) << 1 > 0xff000000u;
  out[n++] = half_add(0x3c003c00, 0x40003800);  // (1, 1) + (0.5, 2)
  out[n++] = half_max(0x3c00bc00, 0x40000000);  // (-1, 1), (0, 2)
  out[n++] = bf_mul(0x3fc03f80, 0x40004000);    // (1, 1.5) * (2, 2)
  out[n++] = bits(sign_of(-0.0f, 3.0f));
  out[n++] = popc(0xf0f01);
  out[n++] = clz(0x00012345);
  out[n++] = brev(0x12345678);
  out[n++] = bfind_u(0x00012345);
  out[n++] = bfind_s(-5);
  out[n++] = abs_s(-7);
  out[n++] = half_exp(0x40003c00);  // 2^1, 2^2
  uint32_t d;
  asm("bfe.u32 %0, %1, 4, 8;" : "=r"(d) : "r"(0x12345678));
  out[n++] = d;
  asm("bfi.b32 %0, %1, %2, 8, 4;" : "=r"(d) : "r"(0xfb), "r"(0x12345678));
  out[n++] = d;
  asm("prmt.b32 %0, %1, %2, 0x7041;" : "=r"(d) : "r"(0x33221100), "r"(0x77665544));
  out[n++] = d;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;"
      : "=r"(d)
      : "r"(0xff00ff00), "r"(0xf0f0f0f0), "r"(0x12345678));
  out[n++] = d;
  asm("shf.l.wrap.b32 %0, %1, %2, 8;" : "=r"(d) : "r"(0x11223344), "r"(0x55667788));
  out[n++] = d;
  asm("shf.r.clamp.b32 %0, %1, %2, 40;" : "=r"(d) : "r"(0x11223344), "r"(0x55667788));
  out[n++] = d;
  uint64_t wide;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(wide) : "r"(-3), "r"(0x40000000));
  out[n++] = static_cast<uint32_t>(wide >> 32);
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(wide) : "r"(0x80000000), "r"(6), "l"(wide));
  out[n++] = static_cast<uint32_t>(wide >> 32);
  int whole;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(whole) : "f"(-2.5f));
  out[n++] = whole;
  asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(d) : "f"(-2.5f));
  out[n++] = d;
  asm("cvt.sat.u8.s32 %0, %1;" : "=r"(d) : "r"(300));
  out[n++] = d;
  float f;
  asm("cvt.rn.f32.s32 %0, %1;" : "=f"(f) : "r"(-7));
  out[n++] = bits(f);
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(d) : "f"(1.0f + 0x1p-11f));
  out[n++] = d;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(-1.0f), "f"(2.0f));
  out[n++] = d;
  asm("{\n.reg .pred p, q;\nsetp.lt.s32 p, %1, %2;\nsetp.gt.and.u32 q, %1, 3, p;\n"
      "selp.b32 %0, 11, 22, q;\n}"
      : "=r"(d)
      : "r"(-1), "r"(5));
  out[n++] = d;
  asm volatile("nanosleep.u32 20;");
}

const uint32_t kScalars[] = {
    0x12345676, 0xffffffff, 0xfffffffd, 2,          0x7fffffff, 1,          0x42003e00, 0x40000000,
    0x40404000, 0xc0400000, 9,          15,         0x1e6a2c48, 16,         2,          7,
    0x44004000, 0x67,       0x12345b78, 0x77004411, 0x1dc45988, 0x66778811, 0x55667788, 0xffffffff,
    2,          0xfffffffe, 0,          255,        0xc0e00000, 0x3f802000, 0x00004000, 11};

__global__ void warps(uint32_t* out, uint32_t* counter, const signed char* small) {
  const uint32_t lane = threadIdx.x;
  uint32_t d, found;
  asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(d) : "r"(lane));
  uint32_t wrong = d != (lane ^ 1);
  asm volatile(
      "{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 2, 0, 0xffffffff; selp.u32 %1, 1, 0, p; }"
      : "=r"(d), "=r"(found)
      : "r"(lane));
  wrong += d != (lane < 2 ? lane : lane - 2) || found != (lane >= 2);
  asm volatile("{ .reg .pred p; setp.gt.u32 p, %1, 7; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
               : "=r"(d)
               : "r"(lane));
  wrong += d != 0xffffff00;
  asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(d) : "r"(lane / 16));
  wrong += d != (lane < 16 ? 0xffffu : 0xffff0000u);
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(d) : "r"(lane));
  wrong += d != 31 * 16;
  asm volatile("activemask.b32 %0;" : "=r"(d));
  wrong += d != 0xffffffff;
  asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(d) : "l"(counter), "r"(2) : "memory");
  wrong += d % 2;
  asm volatile("red.release.gpu.global.max.s32 [%0], %1;" ::"l"(counter + 1), "r"(lane) : "memory");
  asm volatile("atom.cas.b32 %0, [%1], 0, %2;" : "=r"(d) : "l"(counter + 2), "r"(lane + 1));
  int byte;
  asm volatile("ld.global.s8 %0, [%1];" : "=r"(byte) : "l"(small + lane));
  wrong += byte != -static_cast<int>(lane);
  out[lane] = wrong;
}

__global__ void stop(int* out) {
#ifdef WRONG
  if (threadIdx.x == 5) asm volatile("trap;");  // expect trap
#endif
  out[threadIdx.x] = 1;
}

int main() {
  uint32_t *out, *counter;
  signed char* small;
  cudaMallocManaged(&out, 64 * sizeof(uint32_t));
  cudaMallocManaged(&counter, 3 * sizeof(uint32_t));
  cudaMallocManaged(&small, 32);
  cudaMemset(counter, 0, 3 * sizeof(uint32_t));
  for (int i = 0; i < 32; ++i) small[i] = static_cast<signed char>(-i);
  scalars<<<1, 1>>>(out);
  cudaDeviceSynchronize();
  int failures = 0;
  for (size_t i = 0; i < sizeof kScalars / sizeof *kScalars; ++i) {
    if (out[i] == kScalars[i]) continue;
    printf("%zu: %#x, expected %#x\n", i, out[i], kScalars[i]);
    ++failures;
  }
  warps<<<1, 32>>>(out, counter, small);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; ++i) failures += out[i] != 0;
  failures += counter[0] != 64 || counter[1] != 31 || counter[2] == 0;
  stop<<<1, 32>>>((int*)out);
#ifdef WRONG
  failures += cudaDeviceSynchronize() != cudaErrorLaunchFailure;
#else
  failures += cudaDeviceSynchronize() != cudaSuccess;
#endif
  printf("%d wrong\n", failures);
  return failures;
}
