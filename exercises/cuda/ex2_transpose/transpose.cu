// out = in.T. `in` has `rows` rows of `columns` numbers.
// TODO(C.2): the result is right, but the kernel is slow; find the line and mend it

constexpr int TILE = 32, STEP = 8;  // a block of TILE x STEP threads moves one tile

__global__ void transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[TILE][TILE];
  const int x = threadIdx.x, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  for (int y = threadIdx.y; y < TILE; y += STEP) {
    if (row + y < rows && column + x < columns) tile[y][x] = in[(row + y) * columns + column + x];
  }
  __syncthreads();
  for (int y = threadIdx.y; y < TILE; y += STEP) {
    if (column + y < columns && row + x < rows) out[(column + y) * rows + row + x] = tile[x][y];
  }
}
