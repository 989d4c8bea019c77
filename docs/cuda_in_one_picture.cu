// A first kernel, for docs/cuda-in-one-picture.md. It adds up 1 + 2 + … + N, 128 numbers per block.
//
//   ./learn cuda docs/cuda_in_one_picture.cu                      300 numbers, three blocks
//   ./learn cuda docs/cuda_in_one_picture.cu -D WITHOUT_BARRIER   thread 0 may read too early
//   ./learn cuda docs/cuda_in_one_picture.cu -D WITHOUT_GUARD     spare threads read past the end
#include <cmath>
#include <cstdio>
#include <cstdlib>

// [anchor: kernel]
constexpr int NUM_WARPS = 4, NUM_THREADS = NUM_WARPS * 32;

// sums[b] = the sum of the NUM_THREADS numbers of block b
__global__ void add_up(const float* x, float* sums, int n) {
  __shared__ float per_warp[NUM_WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int i = blockIdx.x * NUM_THREADS + threadIdx.x;  // this thread's number
#ifdef WITHOUT_GUARD
  float sum = x[i];
#else
  float sum = i < n ? x[i] : 0;  // the last block has threads to spare
#endif
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
  if (lane == 0) per_warp[warp] = sum;
#ifndef WITHOUT_BARRIER
  __syncthreads();  // all warps have stored their sums
#endif
  if (threadIdx.x == 0) {
    float total = 0;
    for (int w = 0; w < NUM_WARPS; ++w) total += per_warp[w];
    sums[blockIdx.x] = total;
  }
}
// [/anchor: kernel]

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 300;
  bool correct = true;
  // [anchor: host]
  const int num_blocks = (n + NUM_THREADS - 1) / NUM_THREADS;
  float *x, *sums;
  cudaMallocManaged(&x, n * sizeof(float));  // the host and the kernel can both access it
  cudaMallocManaged(&sums, num_blocks * sizeof(float));
  for (int i = 0; i < n; ++i) x[i] = i + 1;
  add_up<<<num_blocks, NUM_THREADS>>>(x, sums, n);
  cudaDeviceSynchronize();
  // [/anchor: host]
  std::printf("%d numbers, %d blocks of %d warps, %d threads to spare\n", n, num_blocks, NUM_WARPS,
              num_blocks * NUM_THREADS - n);
  for (int block = 0; block < num_blocks; ++block) {
    double exact = 0;
    for (int i = block * NUM_THREADS; i < n && i < (block + 1) * NUM_THREADS; ++i) exact += i + 1;
    const bool agrees = std::abs(sums[block] - exact) <= 1e-6 * exact;  // false for a NaN
    correct = correct && agrees;
    // abs, because a NaN has a sign, which is no information
    if (block < 4 || !agrees)
      std::printf("block %d: %g%s\n", block, std::abs(sums[block]), agrees ? "" : ", wrong");
  }
  return !correct;
}
