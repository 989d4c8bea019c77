#pragma once
// Chapter 09's kernel forward and chapter 10's backward, in bf16: on the GPU if there is one, else
// on the emulator. Each call copies its tensors there and back, as the rest of the model is on the
// CPU.

#include <vector>

#include "chapters/10_backward/chapter.hpp"
#include "common/gpu/runtime.hpp"
#include "common/half.hpp"
#include "common/kernels/runner.hpp"
#include "common/memory.hpp"
#include "heads.hpp"

namespace fa::ch20 {

template <class R>
class KernelAttention : public Attention<R> {
 public:
  explicit KernelAttention(const AttentionShape& shape)
      : shape_(shape), on_gpu_(gpu_problem(*::ch10::CHAPTER.gpu).empty()) {
    problem_.shape = {shape.batch, shape.heads, shape.length, shape.length, shape.dim};
    problem_.dtype = Dtype::bf16;
    problem_.scale = 1 / std::sqrt(static_cast<double>(shape.dim));
    problem_.causal = true;
    for (std::vector<float>* tensor : {&problem_.q, &problem_.k, &problem_.v, &o_}) {
      tensor->resize(problem_.shape.q_elements());
    }
    problem_.more.resize(1, std::vector<float>(o_.size()));  // dO
    lse_.resize(problem_.shape.rows());
    MemoryProbe::on_allocate(kept_bytes());
  }
  ~KernelAttention() override { MemoryProbe::on_free(kept_bytes()); }
  KernelAttention(const KernelAttention&) = delete;

  void forward(Input<R> QKV, Matrix<R> O) override {
    for_heads([&](int64_t head) {
      const auto [Q, K, V] = qkv_of(QKV, shape_, head);
      load(Q, problem_.q, head), load(K, problem_.k, head), load(V, problem_.v, head);
    });
    if (on_gpu_) {
      forward_on_gpu(::ch09::CHAPTER, problem_, o_, lse_);
    } else {
      forward_on_emulator(::ch09::CHAPTER, problem_, o_, lse_, {}, uncounted());
    }
    for_heads([&](int64_t head) { store(o_, head, head_of(O, shape_, head)); });
  }

  void backward(Input<R>, Input<R>, Input<R> dO, Matrix<R> dQKV) override {
    counted_vector<float> dq(o_.size()), dk(o_.size()), dv(o_.size());
    const BackwardTensors tensors{o_, lse_, dq, dk, dv};
    for_heads([&](int64_t head) { load(head_of(dO, shape_, head), problem_.more[0], head); });
    if (on_gpu_) {
      backward_on_gpu(::ch10::CHAPTER, problem_, tensors);
    } else {
      backward_on_emulator(::ch10::CHAPTER, problem_, tensors, {}, uncounted());
    }
    for_heads([&](int64_t head) {
      const auto [dQ, dK, dV] = qkv_of(dQKV, shape_, head);
      store(dq, head, dQ), store(dk, head, dK), store(dv, head, dV);
    });
  }

 private:
  int64_t kept_bytes() const {  // Q, K, V, O, dO and LSE
    return (5 * std::ssize(o_) + std::ssize(lse_)) * static_cast<int64_t>(sizeof(float));
  }
  static simt::Config uncounted() {
    simt::Config config;
    config.hazards = config.counters = false;
    return config;
  }
  template <class Work>
  void for_heads(Work work) const {
    for (int64_t head = 0; head < shape_.batch * shape_.heads; ++head) work(head);
  }
  void load(Matrix<const R> from, std::vector<float>& to, int64_t head) const {
    float* next = to.data() + head * shape_.length * shape_.dim;
    for (int64_t i = 0; i < from.rows; ++i) {
      for (int64_t d = 0; d < from.cols; ++d) {
        *next++ = to_float(to_bf16(static_cast<float>(from(i, d))));
      }
    }
  }
  void store(std::span<const float> from, int64_t head, Matrix<R> to) const {
    const float* next = from.data() + head * shape_.length * shape_.dim;
    for (int64_t i = 0; i < to.rows; ++i) {
      for (int64_t d = 0; d < to.cols; ++d) to(i, d) = static_cast<R>(*next++);
    }
  }

  const AttentionShape shape_;
  const bool on_gpu_;
  Problem problem_;
  std::vector<float> o_, lse_;  // bf16 and fp32, as the forward kernel leaves them
};

}  // namespace fa::ch20
