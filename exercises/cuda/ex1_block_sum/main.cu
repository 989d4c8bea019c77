// Runs the kernel of block_sum.cu on N numbers and prints its sums:
//   ./learn cuda exercises/cuda/ex1_block_sum/main.cu -I my_exercises/cuda/ex1_block_sum -- 700
#include <block_sum.cu>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 768, blocks = (n + THREADS - 1) / THREADS;
  float *x, *sums;
  cudaMallocManaged(&x, n * sizeof(float));
  cudaMallocManaged(&sums, blocks * sizeof(float));
  for (int i = 0; i < n; ++i) x[i] = 1 + i * 7 % 13;
  block_sum<<<blocks, THREADS>>>(x, sums, n);
  cudaDeviceSynchronize();
  std::printf("sums:");
  for (int b = 0; b < blocks; ++b) std::printf(" %.9g", sums[b]);
  std::printf("\n");
}
