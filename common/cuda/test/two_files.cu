// options: {here}/other_file.cu
#include <cstdio>

int count_after_launch();
static __device__ int count;  // not the other file's
__global__ void set_count() { count = 5; }

int main() {
  int mine = 0;
  set_count<<<1, 1>>>();
  cudaMemcpyFromSymbol(&mine, count, sizeof mine);
  const int others = count_after_launch();
  std::printf("%d %d\n", mine, others);
  return !(mine == 5 && others == 32);
}
