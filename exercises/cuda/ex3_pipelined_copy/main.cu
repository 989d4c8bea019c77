// Runs the kernel of pipelined_copy.cu on TILES tiles and prints the result:
//   ./learn cuda exercises/cuda/ex3_pipelined_copy/main.cu -I my_exercises/cuda/ex3_pipelined_copy
// Also counts, for thread 0, the copies that are in flight after each of its waits.
#include <cuda_pipeline.h>

#include <cstdio>
#include <cstdlib>

constexpr int MOST = 1024;
__device__ int copies_of_group[MOST], open_group, in_flight[MOST], waits;

__device__ void note_copy() {
  if (threadIdx.x == 0 && open_group < MOST) ++copies_of_group[open_group];
}
__device__ void note_commit() {
  if (threadIdx.x == 0 && open_group < MOST - 1) ++open_group;
}
__device__ void note_wait(int pending) {
  if (threadIdx.x != 0 || waits == MOST) return;
  int copies = copies_of_group[open_group];
  for (int group = open_group - 1; group >= 0 && group >= open_group - pending; --group)
    copies += copies_of_group[group];
  in_flight[waits++] = copies;
}
#define __pipeline_memcpy_async(...) (note_copy(), __pipeline_memcpy_async(__VA_ARGS__))
#define __pipeline_commit() (note_commit(), __pipeline_commit())
#define __pipeline_wait_prior(pending) (note_wait(pending), __pipeline_wait_prior(pending))
#include <pipelined_copy.cu>

int main(int argc, char** argv) {
  const int tiles = argc > 1 ? std::atoi(argv[1]) : 4, n = tiles * THREADS;
  float4 *x, *y;
  cudaMallocManaged(&x, n * sizeof(float4));
  cudaMallocManaged(&y, n * sizeof(float4));
  for (int i = 0; i < n; ++i) x[i] = make_float4(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3);
  reverse_tiles<<<1, THREADS>>>(x, y, tiles);
  cudaDeviceSynchronize();
  std::printf("y:");
  for (int i = 0; i < n; ++i) std::printf(" %g %g %g %g", y[i].x, y[i].y, y[i].z, y[i].w);
  int count = 0, copies[MOST];
  cudaMemcpyFromSymbol(&count, waits, sizeof count);
  cudaMemcpyFromSymbol(copies, in_flight, sizeof copies);
  std::printf("\nin flight:");
  for (int i = 0; i < count; ++i) std::printf(" %d", copies[i]);
  std::printf("\n");
}
