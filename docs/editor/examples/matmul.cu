// C = A B with tiles in shared memory: each element of A and B is read n / TILE times from global
// memory. Take out one of the two barriers, and look which lines race.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int TILE = 16;

__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    a_tile[y][x] = a[row * n + k + x];
    b_tile[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

int main() {
  const int n = 64;
  const size_t bytes = n * n * sizeof(float);
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = std::sin(i);
    b[i] = std::cos(i);
  }
  float *a_gpu, *b_gpu, *c_gpu;
  cudaMalloc(&a_gpu, bytes);
  cudaMalloc(&b_gpu, bytes);
  cudaMalloc(&c_gpu, bytes);
  cudaMemcpy(a_gpu, a.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(b_gpu, b.data(), bytes, cudaMemcpyHostToDevice);
  matmul<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(a_gpu, b_gpu, c_gpu, n);
  cudaMemcpy(c.data(), c_gpu, bytes, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int y = 0; y < n; ++y) {
    for (int x = 0; x < n; ++x) {
      double sum = 0;
      for (int k = 0; k < n; ++k) sum += double(a[y * n + k]) * b[k * n + x];
      wrong += !(std::fabs(c[y * n + x] - sum) < 1e-4);
    }
  }
  printf("%d of %d are wrong\n", wrong, n * n);
  return wrong != 0;
}
