// C = A B. A has m rows of k numbers, B has k rows of n, and C has m rows of n.
// With tiles, each number is loaded once and used by TILE threads. Numbers outside the matrices are
// zeros, which add nothing, because a thread outside C still loads for the others and arrives at
// the barriers. There are two barriers. The first comes before the tiles are read, and the second
// before the next pass overwrites them.

constexpr int TILE = 16;  // a block of TILE x TILE threads computes a tile of C

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;  // of this thread's sum
  float sum = 0;
  for (int first = 0; first < k; first += TILE) {
    a_tile[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0;
    b_tile[y][x] = first + y < k && column < n ? b[(first + y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
