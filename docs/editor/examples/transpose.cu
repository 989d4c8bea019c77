// out = in.T through shared memory. The result is right, but line 15 needs 32 times as many
// wavefronts as it should: all lanes of a warp read the same bank. Write [TILE + 1] in line 10, and
// compare the counters.
#include <cstdio>
#include <vector>

constexpr int TILE = 32, STEP = 8;  // a block of TILE x STEP threads moves one tile

__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[TILE][TILE];
  const int x = threadIdx.x, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  for (int y = threadIdx.y; y < TILE; y += STEP) tile[y][x] = in[(row + y) * n + column + x];
  __syncthreads();
  for (int y = threadIdx.y; y < TILE; y += STEP) {
    out[(column + y) * n + row + x] = tile[x][y];
  }
}

int main() {
  const int n = 128;
  const size_t bytes = n * n * sizeof(float);
  std::vector<float> host(n * n);
  for (int i = 0; i < n * n; ++i) host[i] = i;
  float *in, *out;
  cudaMalloc(&in, bytes);
  cudaMalloc(&out, bytes);
  cudaMemcpy(in, host.data(), bytes, cudaMemcpyHostToDevice);
  transpose<<<dim3(n / TILE, n / TILE), dim3(TILE, STEP)>>>(in, out, n);
  cudaMemcpy(host.data(), out, bytes, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int y = 0; y < n; ++y) {
    for (int x = 0; x < n; ++x) wrong += host[y * n + x] != x * n + y;
  }
  printf("%d of %d are wrong\n", wrong, n * n);
  return wrong != 0;
}
