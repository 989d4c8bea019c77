#pragma once
// Attention with the kernels of two chapters, in bf16, on the GPU if there is one and otherwise on
// the emulator. Each call copies its tensors there and back, because the rest of the model is on
// the CPU.

#include "common/gpu/runtime.hpp"
#include "common/kernels/runner.hpp"
#include "packed_attention.hpp"
#include "self_attention.hpp"

namespace fa::ch20 {

template <class R>
class KernelAttention : public PackedAttention<R> {
 public:
  KernelAttention(const AttentionShape& shape, const AttentionKernels& kernels)
      : PackedAttention<R>(shape, Dtype::bf16),
        kernels_(kernels),
        on_gpu_(gpu_problem(kernels).empty()) {
    uncounted_.hazards = uncounted_.counters = false;
  }

 protected:
  void attend() override {
    if (on_gpu_) {
      forward_on_gpu(kernels_.forward, this->problem_, this->o_, this->lse_);
    } else {
      forward_on_emulator(kernels_.forward, this->problem_, this->o_, this->lse_, {}, uncounted_);
    }
  }
  void differentiate(std::span<float> dq, std::span<float> dk, std::span<float> dv) override {
    const BackwardTensors tensors{this->o_, this->lse_, dq, dk, dv};
    if (on_gpu_) {
      backward_on_gpu(kernels_.backward, this->problem_, tensors);
    } else {
      backward_on_emulator(kernels_.backward, this->problem_, tensors, {}, uncounted_);
    }
  }

 private:
  const AttentionKernels kernels_;
  const bool on_gpu_;
  simt::Config uncounted_;
};

}  // namespace fa::ch20
