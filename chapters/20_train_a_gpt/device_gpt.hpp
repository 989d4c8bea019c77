#pragma once
// The same GPT where kernels run: all of it stays on a GPU from step to step. What a product reads
// is bf16; weights, gradients, AdamW's means and the residual path are fp32.

#include <memory>
#include <span>

#include "common/kernels/chapter.hpp"
#include "training.hpp"

namespace fa::ch20 {

class DeviceGpt {
 public:
  virtual ~DeviceGpt() = default;
  // Copies weights and AdamW's means there, and back.
  virtual void put(const TrainingState& state) = 0;
  virtual void get(TrainingState& state) const = 0;
  // The loss of the weights that lie there, and the gradient [parameter_count] of each.
  virtual double gradient(const Batch& batch, std::span<float> gradient) = 0;
  // Step number `t`, from 1 on. Returns the loss before the update.
  virtual double step(const Batch& batch, int64_t t) = 0;
  // Of what attention alone needs: LSE of each layer, and its backward pass's workspace.
  virtual int64_t attention_bytes() const = 0;
};

// On the GPU, with the forward kernel of one chapter and chapter 10's backward kernel. Throws
// InputError for sizes that they do not take, for a build without cuBLAS, and TooLittle for a GPU
// with too little memory.
std::unique_ptr<DeviceGpt> make_gpu_gpt(const Recipe& recipe, const KernelChapter& forward);
// The same kernels on the emulator, the products by Eigen in fp32 of the same bf16 numbers.
// `looks`: every launch looks for hazards, and throws std::runtime_error for the first.
std::unique_ptr<DeviceGpt> make_emulator_gpt(const Recipe& recipe, const KernelChapter& forward,
                                             bool looks = false);

}  // namespace fa::ch20
