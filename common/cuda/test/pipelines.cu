// options: -std=c++20
// cuda::pipeline of a block: with roles, and with all threads both producers and consumers.
#include <cooperative_groups.h>

#include <cstdio>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

#include "wrong.cuh"

constexpr int n = 64, stages = 2;

// The first warp copies the tiles, the other two add them up.
__global__ void roles(const int* in, int* out, int tiles) {
  __shared__ alignas(16) int buffer[stages][n];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope::thread_scope_block, stages> state;
  const auto block = cg::this_thread_block();
  const bool produces = threadIdx.x < 32;
  auto pipeline = cuda::make_pipeline(
      block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  const int i = threadIdx.x;
  int sum = 0;
  for (int t = 0; t < tiles; ++t) {
    if (produces) {
      pipeline.producer_acquire();
      cuda::memcpy_async(  // expect overwrite_while_read
          &buffer[t % stages][2 * i], in + t * n + 2 * i, 2 * sizeof(int), pipeline);
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      if (wrong) pipeline.consumer_release();
      sum += buffer[t % stages][i - 32];
      if (!wrong) pipeline.consumer_release();
    }
  }
  if (!produces) out[i - 32] = sum;
}

__global__ void unified(const int* in, int* out, int tiles) {
  __shared__ int buffer[stages][n];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  const auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  const int i = threadIdx.x;
  int sum = 0;
  for (int t = 0; t < tiles + 1; ++t) {
    if (t < tiles) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, buffer[t % stages], in + t * n, n * sizeof(int), pipeline);
      pipeline.producer_commit();
    }
    if (t > 0) {
      pipeline.consumer_wait();
      sum += buffer[(t - 1) % stages][n - 1 - i];
      pipeline.consumer_release();
    }
  }
  out[i] = sum;
}

int main() {
  constexpr int tiles = 5;
  int *in, *out, failures = 0;
  cudaMallocManaged(&in, tiles * n * sizeof(int));
  cudaMallocManaged(&out, n * sizeof(int));
  for (int i = 0; i < tiles * n; ++i) in[i] = i * i % 97;
  const auto check = [&](const char* what, bool mirrored) {
    int bad = cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < n; ++i) {
      int sum = 0;
      for (int t = 0; t < tiles; ++t) sum += in[t * n + (mirrored ? n - 1 - i : i)];
      bad += out[i] != sum;
    }
    if (bad != 0) printf("%s: %d wrong\n", what, bad);
    failures += bad;
  };
  roles<<<1, n + 32>>>(in, out, tiles);
  check("roles", false);
  unified<<<1, n>>>(in, out, tiles);
  check("unified", true);
  return wrong ? 0 : failures;
}
