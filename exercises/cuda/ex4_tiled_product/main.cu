// Multiplies an M x K by a K x N matrix with the kernel of tiled_product.cu and prints the result:
//   ./learn cuda exercises/cuda/ex4_tiled_product/main.cu -I my_exercises/cuda/ex4_tiled_product --
//   48 32 64
#include <cstdio>
#include <cstdlib>
#include <tiled_product.cu>

int main(int argc, char** argv) {
  const int m = argc > 1 ? std::atoi(argv[1]) : 48, n = argc > 2 ? std::atoi(argv[2]) : 32;
  const int k = argc > 3 ? std::atoi(argv[3]) : 64;
  float *a, *b, *c;
  cudaMallocManaged(&a, m * k * sizeof(float));
  cudaMallocManaged(&b, k * n * sizeof(float));
  cudaMallocManaged(&c, m * n * sizeof(float));
  for (int i = 0; i < m * k; ++i) a[i] = 1 + i * 5 % 7;
  for (int i = 0; i < k * n; ++i) b[i] = 1 + i * 3 % 11;
  const dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), block(TILE, TILE);
  product<<<grid, block>>>(a, b, c, m, n, k);
  cudaDeviceSynchronize();
  std::printf("c:");
  for (int i = 0; i < m * n; ++i) std::printf(" %.9g", c[i]);
  std::printf("\n");
}
