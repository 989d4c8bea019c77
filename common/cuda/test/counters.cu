// A transpose with and without padding, whose wavefronts are known.
#include <cstdio>

template <int PITCH>
__global__ void transpose(const float* in, float* out) {
  __shared__ float tile[32][PITCH];
  const int column = threadIdx.x % 32, first = threadIdx.x / 32;
  for (int row = first; row < 32; row += 4) tile[row][column] = in[row * 32 + column];
  __syncthreads();
  for (int row = first; row < 32; row += 4) {
    const float value = tile[column][row];  // the line with the most wavefronts
    out[row * 32 + column] = value;
  }
}

int main() {
  float *in, *out;
  cudaMalloc(&in, 4096);
  cudaMalloc(&out, 4096);
  cudaMemset(in, 0, 4096);
  transpose<32><<<1, 128>>>(in, out);
  transpose<33><<<1, 128>>>(in, out);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
