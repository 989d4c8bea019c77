#pragma once
// Attention as in the formula. P [length, length] of every head stays in memory until the backward
// pass, which needs one more matrix of that size per thread.

#include <cmath>
#include <vector>

#include "common/memory.hpp"
#include "common/parallel.hpp"
#include "heads.hpp"

namespace fa::ch20 {

template <class R>
class PlainAttention : public Attention<R> {
 public:
  explicit PlainAttention(const AttentionShape& shape)
      : shape_(shape), P_(heads() * shape.length * shape.length) {}

  void forward(Input<R> QKV, Matrix<R> O) override {
    parallel_for(heads(), 0, [&](int64_t head, int) {
      const auto [Q, K, V] = qkv_of(QKV, shape_, head);
      const Matrix<R> P = weights(head), O_head = head_of(O, shape_, head);
      clear(P);
      add_inner<R>(P, Q, K, scale_);  // S = scale · Q @ K.T
      for (int64_t i = 0; i < P.rows; ++i) {
        R* const row = P.row(i);
        const int64_t visible = i + 1;
        const R m = *std::max_element(row, row + visible);
        const R l = exponentiate(row, visible, m);
        for (int64_t j = 0; j < P.cols; ++j) row[j] = j < visible ? row[j] / l : 0;
      }
      clear(O_head);
      add_product<R>(O_head, P, V);  // O = P @ V
    });
  }

  void backward(Input<R> QKV, Input<R>, Input<R> dO_all, Matrix<R> dQKV) override {
    parallel_for(heads(), 0, [&](int64_t head, int) {
      counted_vector<R> memory(shape_.length * shape_.length);
      const auto [Q, K, V] = qkv_of(QKV, shape_, head);
      const auto [dQ, dK, dV] = qkv_of(dQKV, shape_, head);
      const Matrix<const R> dO = head_of(dO_all, shape_, head);
      const Matrix<R> P = weights(head), dS(memory.data(), shape_.length, shape_.length);
      for (const Matrix<R>& result : {dQ, dK, dV}) clear(result);
      add_outer<R>(dV, P, dO);  // dV = P.T @ dO
      add_inner<R>(dS, dO, V);  // dP = dO @ V.T
      for (int64_t i = 0; i < dS.rows; ++i) {
        R D = 0;  // rowsum(P ∘ dP)
        for (int64_t j = 0; j <= i; ++j) D += P(i, j) * dS(i, j);
        for (int64_t j = 0; j < dS.cols; ++j) dS(i, j) = P(i, j) * (dS(i, j) - D);
      }
      add_product<R>(dQ, dS, K, scale_);  // dQ = scale · dS @ K
      add_outer<R>(dK, dS, Q, scale_);    // dK = scale · dS.T @ Q
    });
  }

 private:
  int64_t heads() const { return shape_.batch * shape_.heads; }
  Matrix<R> weights(int64_t head) {
    return {P_.data() + head * shape_.length * shape_.length, shape_.length, shape_.length};
  }

  const AttentionShape shape_;
  const R scale_ = 1 / std::sqrt(static_cast<R>(shape_.dim));
  counted_vector<R> P_;  // [batch, heads, length, length]
};

}  // namespace fa::ch20
