#pragma once
// Tiles of Q, K and V that fit in fast memory, and the two products of tiles. Every transfer
// between a tensor and a tile is counted.

#include <algorithm>
#include <cstdint>

#include "common/half.hpp"
#include "common/memory.hpp"
#include "common/tensor.hpp"
#include "modifier.hpp"

namespace ch02 {

// Bytes moved between the tensors and fast memory, and the number of tiles of S.
struct Counts {
  int64_t bytes_read = 0, bytes_written = 0;
  int64_t tiles = 0, tiles_skipped = 0;  // computed and hidden tiles of S

  Counts& operator+=(const Counts& other) {
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    tiles += other.tiles;
    tiles_skipped += other.tiles_skipped;
    return *this;
  }
};

inline int64_t tiles_in(int64_t length, int64_t block) { return (length + block - 1) / block; }

inline Range tile_range(int64_t tile, int64_t block, int64_t length) {
  return {tile * block, std::min((tile + 1) * block, length)};
}

// Returns `x` rounded to T.
template <class T>
float rounded(float x) {
  return fa::to_float(fa::from_float<T>(x));
}

// Copies the rows `rows` of a matrix into a tile of `block` rows. Rows past the end of the matrix
// become 0.
template <class T>
void load_tile(float* tile, fa::View<const T> matrix, Range rows, int64_t block, Counts& counts) {
  for (int64_t i = 0; i < rows.size(); ++i) {
    const T* const row = matrix.row(rows.begin + i);
    for (int64_t d = 0; d < matrix.cols; ++d) tile[i * matrix.cols + d] = fa::to_float(row[d]);
  }
  std::fill(tile + rows.size() * matrix.cols, tile + block * matrix.cols, 0.0f);
  counts.bytes_read += rows.size() * matrix.cols * static_cast<int64_t>(sizeof(T));
}

// Copies rows into a transposed tile [dim, block]. S = Q @ K.T can then use vector instructions on
// several keys without changing the order of any sum.
template <class T>
void load_tile_transposed(float* tile, fa::View<const T> matrix, Range rows, int64_t block,
                          Counts& counts) {
  std::fill(tile, tile + block * matrix.cols, 0.0f);
  for (int64_t i = 0; i < rows.size(); ++i) {
    const T* const row = matrix.row(rows.begin + i);
    for (int64_t d = 0; d < matrix.cols; ++d) tile[d * block + i] = fa::to_float(row[d]);
  }
  counts.bytes_read += rows.size() * matrix.cols * static_cast<int64_t>(sizeof(T));
}

// c += a @ b   [rows, depth] @ [depth, cols]
// Processes four steps of the depth at a time, so that c is loaded and stored once per four steps.
inline void multiply_add(float* c, const float* a, const float* b, int64_t rows, int64_t depth,
                         int64_t cols) {
  for (int64_t i = 0; i < rows; ++i, a += depth, c += cols) {
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      const float *b0 = b + k * cols, *b1 = b0 + cols, *b2 = b1 + cols, *b3 = b2 + cols;
      const float a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
      for (int64_t j = 0; j < cols; ++j) {
        c[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
      }
    }
    for (; k < depth; ++k) {
      for (int64_t j = 0; j < cols; ++j) c[j] += a[k] * b[k * cols + j];
    }
  }
}

// S = Q @ K.T   [block_q, block_kv]
inline void multiply_query_key(float* s, const float* q, const float* k_transposed, int64_t block_q,
                               int64_t block_kv, int64_t dim) {
  std::fill(s, s + block_q * block_kv, 0.0f);
  multiply_add(s, q, k_transposed, block_q, dim, block_kv);
}

}  // namespace ch02
