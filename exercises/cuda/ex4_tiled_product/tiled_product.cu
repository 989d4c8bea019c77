// C = A B. A has m rows of k numbers, B has k rows of n, and C has m rows of n.

constexpr int TILE = 16;  // a block of TILE x TILE threads computes a tile of C

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;  // of this thread's sum
#error TODO(C.4): load tiles of A and B, multiply them, and store the sum
}
