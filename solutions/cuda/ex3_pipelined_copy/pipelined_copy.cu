// y = x, with the numbers of each tile in reverse order. A tile has THREADS float4. One block.
// Each tile has a group, even an empty one, because __pipeline_wait_prior(1) leaves the newest
// group in flight, whatever is in it. There are two barriers. The wait covers only this thread's
// copies, so after the first barrier all copies have landed. The second comes before the next copy
// into this stage.
#include <cuda_pipeline.h>

constexpr int THREADS = 128, STAGES = 2;

__global__ void reverse_tiles(const float4* x, float4* y, int tiles) {
  __shared__ float4 stage[STAGES][THREADS];
  const int t = threadIdx.x;
  const auto start_copy = [&](int tile) {
    if (tile < tiles)
      __pipeline_memcpy_async(&stage[tile % STAGES][t], &x[tile * THREADS + t], sizeof(float4));
    __pipeline_commit();
  };
  start_copy(0);
  for (int tile = 0; tile < tiles; ++tile) {
    start_copy(tile + 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    y[tile * THREADS + t] = stage[tile % STAGES][THREADS - 1 - t];
    __syncthreads();
  }
}
