// Included by units.cu and units_other.cu, with another UNIT. No name is in one of them only.
#pragma once
#include <cstdio>

#ifndef UNIT
#define UNIT 1
#define FUNCTION this_file
#else
#define FUNCTION other_file
#endif

int this_file(int round);
int other_file(int round);

static __device__ int counter = UNIT;
static __constant__ int constant;
__device__ int plain[UNIT];  // not of the same size
namespace {
__device__ int unnamed;
__device__ int helper() {
  __shared__ int shared;
  if (threadIdx.x == 0) shared = UNIT;
#if !defined(WRONG) || UNIT == 1
  __syncthreads();
#endif
  return shared;  // expect read_before_barrier
}
__global__ void in_namespace(int* out) {
  if (threadIdx.x == 0) out[0] = 10 * UNIT + unnamed;
}
}  // namespace
static __global__ void kernel(int* out) {
  const int s = helper();
  if (threadIdx.x == 0) out[0] = counter++ * 1000 + constant * 100 + plain[UNIT - 1] * 10 + s;
}

int FUNCTION(int round) {
  const int values[3] = {UNIT + 3, UNIT + 4, UNIT + 5};
  cudaMemcpyToSymbol(constant, &values[0], sizeof(int));
  cudaMemcpyToSymbol(plain, &values[1], sizeof(int), (UNIT - 1) * sizeof(int));
  cudaMemcpyToSymbol(unnamed, &values[2], sizeof(int));
  size_t bytes = 0;
  cudaGetSymbolSize(&bytes, plain);
  int *out, first, second, count;
  cudaMalloc(&out, sizeof(int));
  kernel<<<1, 32>>>(out);
  cudaMemcpy(&first, out, sizeof(int), cudaMemcpyDeviceToHost);
  in_namespace<<<1, 32>>>(out);
  cudaMemcpy(&second, out, sizeof(int), cudaMemcpyDeviceToHost);
  cudaMemcpyFromSymbol(&count, counter, sizeof(int));
  cudaFree(out);
  const int wanted = (UNIT + round) * 1000 + (UNIT + 3) * 100 + (UNIT + 4) * 10 + UNIT;
  const bool right = first == wanted && second == 10 * UNIT + UNIT + 5 &&
                     count == UNIT + round + 1 && bytes == UNIT * sizeof(int);
  if (!right)
    printf("file %d: %d, expected %d; %d; %d; %zu\n", UNIT, first, wanted, second, count, bytes);
  return !right;
}
