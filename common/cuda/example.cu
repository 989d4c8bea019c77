// Adds up blocks of 256 numbers. One barrier is missing: `emucuda example.cu` says which.
#include <cstdio>
#include <vector>

// [anchor: kernel]
__global__ void sum_of_block(const float* in, float* out) {
  __shared__ float partial[256];
  const int i = threadIdx.x;
  partial[i] = in[blockIdx.x * 256 + i];
#ifdef BARRIER
  __syncthreads();
#endif
  for (int half = 128; half > 0; half /= 2) {
    if (i < half) partial[i] += partial[i + half];
    __syncthreads();
  }
  if (i == 0) out[blockIdx.x] = partial[0];
}
// [/anchor: kernel]

int main() {
  const int blocks = 4;
  std::vector<float> numbers(blocks * 256, 0.5f), sums(blocks);
  float *in, *out;
  cudaMalloc(&in, numbers.size() * sizeof(float));
  cudaMalloc(&out, sums.size() * sizeof(float));
  cudaMemcpy(in, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice);
  sum_of_block<<<blocks, 256>>>(in, out);
  cudaMemcpy(sums.data(), out, sums.size() * sizeof(float), cudaMemcpyDeviceToHost);
  printf("sum of the first block: %g\n", sums[0]);
  cudaFree(in);
  cudaFree(out);
}
