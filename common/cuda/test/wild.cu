// Races that public kernels have, each in a kernel of a few lines. docs/races-in-the-wild.md
// tells their stories.
#include <cmath>
#include <cstdio>

#ifdef WRONG
#define BARRIER
#define FENCE
#else
#define BARRIER __syncthreads()
#define FENCE __threadfence()
#endif

__device__ float warp_max(float x) {
  for (int bit = 16; bit > 0; bit /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, bit));
  return x;
}
__device__ float warp_sum(float x) {
  for (int bit = 16; bit > 0; bit /= 2) x += __shfl_xor_sync(~0u, x, bit);
  return x;
}

// [anchor: slot]
// The row's maximum, then its sum of exponentials, through the same words of shared memory.
__global__ void softmax_row(const float* x, float* y) {
  __shared__ float per_warp[4];
  const int i = threadIdx.x, warp = i / 32;
  const float m = warp_max(x[i]);
  if (i % 32 == 0) per_warp[warp] = m;
  __syncthreads();
  if (i == 0) per_warp[0] = fmaxf(fmaxf(per_warp[0], per_warp[1]), fmaxf(per_warp[2], per_warp[3]));
  __syncthreads();
  const float e = expf(x[i] - per_warp[0]);
  BARRIER;
  const float sum = warp_sum(e);
  if (i % 32 == 0) per_warp[warp] = sum;  // expect overwrite_while_read
  __syncthreads();
  y[i] = e / (per_warp[0] + per_warp[1] + per_warp[2] + per_warp[3]);
}
// [/anchor: slot]

// [anchor: zeros]
// Warp 0 clears 32 words, of which each warp then fills one. A second pass uses them again.
__global__ void sums(const float* x, float* y, int rows) {
  __shared__ float per_warp[32];
  const int i = threadIdx.x, warp = i / 32;
  if (warp == 0) per_warp[i] = 0;
  BARRIER;
  for (int row = 0; row < rows; ++row) {
    const float sum = warp_sum(x[row * 128 + i]);
    per_warp[warp] = sum;  // expect write_write // expect overwrite_while_read
    __syncthreads();
    const float all = warp_sum(per_warp[i % 32]);
    if (i == 0) y[row] = all;
    BARRIER;
  }
}
// [/anchor: zeros]

// [anchor: blocks]
// A grid with one block per head, and a loop over the heads.
__global__ void scale_heads(float* x, const float* by, int heads) {
#ifdef WRONG
  for (int head = 0; head < heads; ++head)
#else
  const int head = blockIdx.x;
#endif
    x[head * 32 + threadIdx.x] = by[head];  // expect global_race
}
// [/anchor: blocks]

// [anchor: ticket]
__device__ unsigned finished = 0;

// Each block leaves a sum. The block that takes the last ticket adds up the sums of all.
__global__ void sum_all(const float* x, float* sums, float* total) {
  __shared__ bool is_last;
  const float sum = warp_sum(x[blockIdx.x * 32 + threadIdx.x]);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;  // expect global_race
    FENCE;                   // the sum is there before the ticket is
    is_last = atomicAdd(&finished, 1) == gridDim.x - 1;
    FENCE;  // the other sums are read after the ticket
  }
  __syncthreads();
  if (!is_last) return;
  const float all = warp_sum(threadIdx.x < gridDim.x ? sums[threadIdx.x] : 0);
  if (threadIdx.x == 0) *total = all;
}
// [/anchor: ticket]

int main() {
  float *x, *y;
  cudaMallocManaged(&x, 2 * 128 * sizeof(float));
  cudaMallocManaged(&y, 256 * sizeof(float));
  for (int i = 0; i < 256; ++i) x[i] = i % 7;
  softmax_row<<<1, 128>>>(x, y);
  cudaDeviceSynchronize();
  double sum = 0;
  for (int i = 0; i < 128; ++i) sum += y[i];
  bool right = std::fabs(sum - 1) < 1e-5;
  sums<<<1, 128>>>(x, y, 2);
  cudaDeviceSynchronize();
  for (int row = 0; row < 2; ++row) {
    float expected = 0;
    for (int i = 0; i < 128; ++i) expected += x[row * 128 + i];
    right = right && y[row] == expected;
  }
  scale_heads<<<4, 32>>>(y, x, 4);
  cudaDeviceSynchronize();
  for (int i = 0; i < 128; ++i) right = right && y[i] == x[i / 32];
  sum_all<<<8, 32>>>(x, y, y + 8);
  cudaDeviceSynchronize();
  float total = 0;
  for (int i = 0; i < 256; ++i) total += x[i];
  right = right && y[8] == total;
  std::printf("%s\n", right ? "right" : "wrong");
  return 0;
}
