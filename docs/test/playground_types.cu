// Types of 16 bits, a pipeline and a cooperative group, for playground.test.mjs. It has hazards.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cstdio>
namespace cg = cooperative_groups;
__device__ float twice(const float* p) { return 2 * p[threadIdx.x + 1]; }
__global__ void k(const half* a, half* b, float* f, __nv_bfloat16* c) {
  __shared__ alignas(16) float s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], &f[threadIdx.x], 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
  b[threadIdx.x] = __hadd(a[threadIdx.x], __float2half(s[31 - threadIdx.x]));
  c[threadIdx.x] = __float2bfloat16(s[threadIdx.x] * 1.01f);
  f[threadIdx.x] = __half2float(b[threadIdx.x]) + twice(f);
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  float sum = f[threadIdx.x];
  for (int i = warp.size() / 2; i > 0; i /= 2) sum += warp.shfl_down(sum, i);
  if (warp.thread_rank() == 0) f[0] = sum;
}
int main() {
  half* a;
  half* b;
  float* f;
  __nv_bfloat16* c;
  cudaMallocManaged(&a, 64);
  cudaMallocManaged(&b, 64);
  cudaMallocManaged(&f, 128);
  cudaMallocManaged(&c, 64);
  for (int i = 0; i < 32; ++i) {
    a[i] = __float2half(i * 0.3f);
    f[i] = i * 1.7f;
  }
  k<<<1, 32>>>(a, b, f, c);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; ++i)
    printf("%g %g %g ", __half2float(b[i]), f[i], __bfloat162float(c[i]));
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
