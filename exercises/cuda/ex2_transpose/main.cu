// Transposes ROWS x COLUMNS numbers with the kernel of transpose.cu and prints the result:
//   ./learn cuda exercises/cuda/ex2_transpose/main.cu -I my_exercises/cuda/ex2_transpose -- 64 96
#include <cstdio>
#include <cstdlib>
#include <transpose.cu>

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 64, columns = argc > 2 ? std::atoi(argv[2]) : 96;
  float *in, *out;
  cudaMallocManaged(&in, rows * columns * sizeof(float));
  cudaMallocManaged(&out, rows * columns * sizeof(float));
  for (int i = 0; i < rows * columns; ++i) in[i] = i;
  const dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE), block(TILE, STEP);
  transpose<<<grid, block>>>(in, out, rows, columns);
  cudaDeviceSynchronize();
  std::printf("out:");
  for (int i = 0; i < rows * columns; ++i) std::printf(" %.9g", out[i]);
  std::printf("\n");
}
