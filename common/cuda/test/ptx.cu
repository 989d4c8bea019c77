// Inline PTX: cp.async, ldmatrix and mma multiply a tile; ex2, packed loads and stores, fences.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "wrong.cuh"

__device__ __forceinline__ void cp_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(to), "l"(from),
               "n"(16));
}

// c [16, 8] = a [16, 16] b [8, 16] transposed, by one warp
__global__ void product(const half* a, const half* b, float* c) {
  __shared__ alignas(16) half a_tile[16 * 16];
  __shared__ alignas(16) half b_tile[8 * 16];
  const int lane = threadIdx.x;
  const uint32_t a_address = __cvta_generic_to_shared(a_tile);
  uint32_t b_address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(b_address)
      : "l"(b_tile));
  cp_async(a_address + 16 * lane, a + 8 * lane);
  if (lane < 16) cp_async(b_address + 16 * lane, b + 8 * lane);
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group %0;" ::"n"(wrong ? 1 : 0));
  __syncthreads();
  uint32_t x[4], y[2];
  const uint32_t row = a_address + 32 * (lane % 16) + 16 * (lane / 16);
  asm volatile(  // expect read_before_wait
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
      : "r"(row));
  asm volatile(  // expect read_before_wait
      "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
      : "=r"(y[0]), "=r"(y[1])
      : "r"(b_address + 32 * (lane % 8) + 16 * (lane / 8 % 2)));
  float sums[4] = {0, 0, 0, 0};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  const int r = lane / 4, column = lane % 4 * 2;
  c[r * 8 + column] = sums[0];
  c[r * 8 + column + 1] = sums[1];
  c[(r + 8) * 8 + column] = sums[2];
  c[(r + 8) * 8 + column + 1] = sums[3];
}

__global__ void small_things(const float* in, float* out) {
  float x = in[threadIdx.x], power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(in));
  uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("st.global.f32 [%0], %1;" ::"l"(out + threadIdx.x), "f"(power + v.w + lane));
}

__global__ void pipeline(const float* in, float* out) {
  __shared__ float tile[2][32];
  const int i = threadIdx.x;
  __pipeline_memcpy_async(&tile[0][i], in + i, sizeof(float));
  __pipeline_commit();
  __pipeline_memcpy_async(&tile[1][i], in + 32 + i, sizeof(float));
  __pipeline_commit();
  __pipeline_wait_prior(1);
  float sum = tile[0][i];
  __pipeline_wait_prior(0);
  out[i] = sum + tile[1][i];
}

int main() {
  half *a, *b;
  float *c, *in;
  cudaMallocManaged(&a, 16 * 16 * sizeof(half));
  cudaMallocManaged(&b, 8 * 16 * sizeof(half));
  cudaMallocManaged(&c, 16 * 8 * sizeof(float));
  cudaMallocManaged(&in, 64 * sizeof(float));
  for (int i = 0; i < 256; ++i) a[i] = __float2half(i % 7 - 3);
  for (int i = 0; i < 128; ++i) b[i] = __float2half(i % 5 - 2);
  for (int i = 0; i < 64; ++i) in[i] = i * 0.125f;
  int failures = 0;
  product<<<1, 32>>>(a, b, c);
  cudaDeviceSynchronize();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += __half2float(a[row * 16 + k]) * __half2float(b[column * 16 + k]);
      failures += !(c[row * 8 + column] == sum);
    }
  }
  if (wrong) failures = 0;  // the emulator says so
  small_things<<<1, 32>>>(in, c);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; ++i) failures += !(fabs(c[i] - (exp2(in[i]) + in[3] + i)) < 1e-5);
  pipeline<<<1, 32>>>(in, c);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; ++i) failures += !(c[i] == in[i] + in[32 + i]);
  printf("%d wrong\n", failures);
  return failures;
}
