#pragma once
// Views one head of the tensors of a layer's attention as matrices [length, dim].

#include "self_attention.hpp"

namespace fa::ch20 {

template <class R>
struct Head {
  Matrix<R> Q, K, V;
};

// [anchor: heads]
// `head` is numbered batch * heads + head.
template <class R>
Matrix<R> head_of(Matrix<R> tensor, const AttentionShape& shape, int64_t head, int64_t which = 0) {
  return tensor.block(head / shape.heads * shape.length,
                      which * shape.channels() + head % shape.heads * shape.dim, shape.length,
                      shape.dim);
}
template <class R>
Head<R> qkv_of(Matrix<R> QKV, const AttentionShape& shape, int64_t head) {
  return {head_of(QKV, shape, head, 0), head_of(QKV, shape, head, 1), head_of(QKV, shape, head, 2)};
}
// [/anchor: heads]

template <class R>
void clear(Matrix<R> matrix) {
  for (int64_t i = 0; i < matrix.rows; ++i) {
    for (int64_t j = 0; j < matrix.cols; ++j) matrix(i, j) = 0;
  }
}

}  // namespace fa::ch20
