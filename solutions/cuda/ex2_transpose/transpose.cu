// out = in.T. `in` has `rows` rows of `columns` numbers.
// A row of the tile fills the 32 banks once, so without the XOR a whole column is in one bank. With
// column ^ row in place of the column, the 32 words of a column are in 32 banks, and so are those
// of a row. The store and the read must agree on the place. Padding would have the same effect, but
// costs 128 bytes.

constexpr int TILE = 32, STEP = 8;  // a block of TILE x STEP threads moves one tile

__global__ void transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[TILE][TILE];
  const int x = threadIdx.x, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  for (int y = threadIdx.y; y < TILE; y += STEP) {
    if (row + y < rows && column + x < columns)
      tile[y][x ^ y] = in[(row + y) * columns + column + x];
  }
  __syncthreads();
  for (int y = threadIdx.y; y < TILE; y += STEP) {
    if (column + y < columns && row + x < rows) out[(column + y) * rows + row + x] = tile[x][y ^ x];
  }
}
