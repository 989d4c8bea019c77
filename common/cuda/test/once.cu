// options: --once
// A main that measures: it repeats its launches, of which only the first one with the same
// arguments runs.
#include <cstdio>

__global__ void fill(int* data, int* runs, int value) {
  data[threadIdx.x] = value;
  if (threadIdx.x == 0) ++*runs;
}

// A static variable of one byte does not move what follows it off its alignment.
__global__ void sum(const int* data, int* out, int value) {
  extern __shared__ int words[];
  __shared__ bool odd;
  const int i = threadIdx.x;
  words[i] = data[i];
  if (i == 0) odd = data[0] % 2 != 0;
  __syncthreads();
  if (i == 0) *out = words[31] * 100 + value * 10 + odd;
}

int main() {
  int *data, *runs, *out, failures = 0;
  cudaMallocManaged(&data, 32 * sizeof(int));
  cudaMallocManaged(&runs, sizeof(int));
  cudaMallocManaged(&out, sizeof(int));
  *runs = 0;
  for (int value = 1; value <= 2; ++value) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      fill<<<1, 32>>>(data, runs, value);
      sum<<<1, 32, 32 * sizeof(int)>>>(data, out, value);
    }
    cudaDeviceSynchronize();
    failures += *out != value * 110 + value % 2 || *runs != value;
  }
  printf("%d wrong\n", failures);
  return failures;
}
