#pragma once
// The same GPT on the device that runs the kernels. All of it stays on a GPU from step to step.
// Factors of products are bf16, while weights, gradients, AdamW's means and the residual path are
// fp32.

#include <memory>
#include <span>

#include "self_attention.hpp"
#include "training.hpp"

namespace fa::ch20 {

class DeviceGpt {
 public:
  virtual ~DeviceGpt() = default;
  // Copy weights and AdamW's means to the device, and back.
  virtual void put(const TrainingState& state) = 0;
  virtual void get(TrainingState& state) const = 0;
  // Returns the loss of the current weights, and writes the gradient [parameter_count].
  virtual double gradient(const Batch& batch, std::span<float> gradient) = 0;
  // Takes step number `t`, counted from 1. Returns the loss before the update.
  virtual double step(const Batch& batch, int64_t t) = 0;
  // Memory that only attention needs, which is LSE of each layer, and the workspace of its backward
  // pass.
  virtual int64_t attention_bytes() const = 0;
};

// Returns the GPT on the GPU with these kernels. Throws InputError for sizes that they do not
// support and for a build without cuBLAS, and OutOfMemory for a GPU with too little memory.
std::unique_ptr<DeviceGpt> make_gpu_gpt(const Recipe& recipe, const AttentionKernels& kernels);
// Returns the GPT with the same kernels on the emulator, and Eigen's products in fp32 of the same
// bf16 numbers. With `looks`, every launch checks for hazards and throws std::runtime_error for the
// first one.
std::unique_ptr<DeviceGpt> make_emulator_gpt(const Recipe& recipe, const AttentionKernels& kernels,
                                             bool looks = false);

}  // namespace fa::ch20
