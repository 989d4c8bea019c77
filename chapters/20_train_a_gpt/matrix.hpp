#pragma once
// Non-owning matrices, and the three products of a network. Eigen computes the products, because
// this chapter teaches what is around them.

#include <cstdint>
#include <functional>
#include <type_traits>

namespace fa::ch20 {

// Element (i, j) is at data + i * stride + j, so a block of a wider matrix is a Matrix as well.
template <class R>
struct Matrix {
  R* data;
  int64_t rows, cols, stride;

  Matrix(R* data, int64_t rows, int64_t cols) : Matrix(data, rows, cols, cols) {}
  Matrix(R* data, int64_t rows, int64_t cols, int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}

  R* row(int64_t i) const { return data + i * stride; }
  R& operator()(int64_t i, int64_t j) const { return data[i * stride + j]; }
  Matrix block(int64_t first_row, int64_t first_col, int64_t block_rows, int64_t block_cols) const {
    return {data + first_row * stride + first_col, block_rows, block_cols, stride};
  }
  Matrix row_block(int64_t first, int64_t count) const { return block(first, 0, count, cols); }
  operator Matrix<const R>() const { return {data, rows, cols, stride}; }
};

// An argument from which R is not deduced, so that a Matrix<float> is accepted as Matrix<const
// float>.
template <class R>
using Input = Matrix<const std::type_identity_t<R>>;

// C += factor · A @ B      [m, n] += [m, k] @ [k, n]
template <class R>
void add_product(Matrix<R> C, Input<R> A, Input<R> B, std::type_identity_t<R> factor = 1);
// C += factor · A @ B.T    [m, n] += [m, k] @ [n, k].T
template <class R>
void add_inner(Matrix<R> C, Input<R> A, Input<R> B, std::type_identity_t<R> factor = 1);
// C += factor · A.T @ B    [m, n] += [k, m].T @ [k, n]
template <class R>
void add_outer(Matrix<R> C, Input<R> A, Input<R> B, std::type_identity_t<R> factor = 1);

// x[i] = e^(x[i] − m). Returns their sum.
template <class R>
R exponentiate(R* x, int64_t count, R m);

// Calls work(first, count) for pieces of [0, rows), on all threads. The pieces do not depend on the
// number of threads, so the results have the same bits for any number.
void for_row_blocks(int64_t rows, const std::function<void(int64_t first, int64_t count)>& work);

}  // namespace fa::ch20
