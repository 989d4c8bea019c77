#pragma once
// Attention by code that needs contiguous tensors. It copies Q, K and V to [batch, heads, length,
// dim], and copies the results back.

#include <cmath>
#include <span>
#include <vector>

#include "common/half.hpp"
#include "common/memory.hpp"
#include "common/problem.hpp"
#include "heads.hpp"

namespace fa::ch20 {

template <class R>
class PackedAttention : public Attention<R> {
 public:
  PackedAttention(const AttentionShape& shape, Dtype dtype) : shape_(shape) {
    problem_.shape = {shape.batch, shape.heads, shape.length, shape.length, shape.dim};
    problem_.dtype = dtype;
    problem_.scale = 1 / std::sqrt(static_cast<double>(shape.dim));
    problem_.causal = true;
    for (std::vector<float>* tensor : {&problem_.q, &problem_.k, &problem_.v, &o_}) {
      tensor->resize(problem_.shape.q_elements());
    }
    problem_.d_o.resize(o_.size());
    lse_.resize(problem_.shape.rows());
    MemoryProbe::on_allocate(kept_bytes());
  }
  ~PackedAttention() override { MemoryProbe::on_free(kept_bytes()); }
  PackedAttention(const PackedAttention&) = delete;

  void forward(Input<R> QKV, Matrix<R> O) override {
    for_heads([&](int64_t head) {
      const auto [Q, K, V] = qkv_of(QKV, shape_, head);
      load(Q, problem_.q, head), load(K, problem_.k, head), load(V, problem_.v, head);
    });
    attend();
    for_heads([&](int64_t head) { store(o_, head, head_of(O, shape_, head)); });
  }

  void backward(Input<R>, Input<R>, Input<R> dO, Matrix<R> dQKV) override {
    counted_vector<float> dq(o_.size()), dk(o_.size()), dv(o_.size());
    for_heads([&](int64_t head) { load(head_of(dO, shape_, head), problem_.d_o, head); });
    differentiate(dq, dk, dv);
    for_heads([&](int64_t head) {
      const auto [dQ, dK, dV] = qkv_of(dQKV, shape_, head);
      store(dq, head, dQ), store(dk, head, dK), store(dv, head, dV);
    });
  }

 protected:
  virtual void attend() = 0;  // problem_ -> o_, and lse_ if differentiate() needs it
  virtual void differentiate(std::span<float> dq, std::span<float> dk, std::span<float> dv) = 0;

  const AttentionShape shape_;
  Problem problem_;  // more[0] is dO
  std::vector<float> o_, lse_;

 private:
  int64_t kept_bytes() const {  // Q, K, V, O, dO and LSE
    return (5 * std::ssize(o_) + std::ssize(lse_)) * static_cast<int64_t>(sizeof(float));
  }
  template <class Work>
  void for_heads(Work work) const {
    for (int64_t head = 0; head < shape_.batch * shape_.heads; ++head) work(head);
  }
  void load(Matrix<const R> from, std::vector<float>& to, int64_t head) const {
    const bool rounds = problem_.dtype == Dtype::bf16;
    float* next = to.data() + head * shape_.length * shape_.dim;
    for (int64_t i = 0; i < from.rows; ++i) {
      for (int64_t d = 0; d < from.cols; ++d) {
        const float x = static_cast<float>(from(i, d));
        *next++ = rounds ? to_float(to_bf16(x)) : x;
      }
    }
  }
  void store(std::span<const float> from, int64_t head, Matrix<R> to) const {
    const float* next = from.data() + head * shape_.length * shape_.dim;
    for (int64_t i = 0; i < to.rows; ++i) {
      for (int64_t d = 0; d < to.cols; ++d) to(i, d) = static_cast<R>(*next++);
    }
  }
};

}  // namespace fa::ch20
