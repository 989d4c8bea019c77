// Adds up blocks of 256 numbers. The loop has a race: a warp may read what another has not written
// yet. Put a barrier, __syncthreads(), at the end of each round of the loop.
#include <cstdio>
#include <vector>

__global__ void sum_of_block(const int* in, int* out) {
  __shared__ int partial[256];
  const int i = threadIdx.x;
  partial[i] = in[blockIdx.x * 256 + i];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (i < half) partial[i] += partial[i + half];
  }
  if (i == 0) out[blockIdx.x] = partial[0];
}

int main() {
  const int blocks = 4;
  std::vector<int> numbers(blocks * 256, 1), sums(blocks);
  int *in, *out;
  cudaMalloc(&in, numbers.size() * sizeof(int));
  cudaMalloc(&out, sums.size() * sizeof(int));
  cudaMemcpy(in, numbers.data(), numbers.size() * sizeof(int), cudaMemcpyHostToDevice);
  sum_of_block<<<blocks, 256>>>(in, out);
  cudaMemcpy(sums.data(), out, sums.size() * sizeof(int), cudaMemcpyDeviceToHost);
  for (int sum : sums) printf("%d\n", sum);
}
