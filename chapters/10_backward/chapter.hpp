#pragma once
// Describes chapter 10's kernels to host code.

#include "breaks.hpp"
#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "common/error.hpp"
#include "design.hpp"

namespace emulator::ch10 {
extern const fa::KernelBuild build;
}
namespace gpu::ch10 {
extern const fa::KernelBuild build;
}

namespace ch10 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--design", 0, 3, 0, "1: two kernels, 2: one kernel, 3: two roles [0: the fastest]",
     "of the designs"},
    {"--deterministic", 0, 1, 0, "dQ is summed in one order", "deterministic"},
};

// Throws InputError unless the head size is a multiple of 8 up to 128 and an int holds the lengths.
inline void check_shape(const fa::Shape& shape) {
  if (shape.dim % 8 != 0 || shape.dim > 128) {
    throw fa::InputError("head size " + std::to_string(shape.dim) +
                         ": this chapter's kernels take multiples of 8 up to 128");
  }
  fa::check_kernel_lengths(shape);
}

inline constexpr fa::Kernel KERNEL{
    .name = "ch10_backward",
    .emulator = &emulator::ch10::build,
    .gpu = &gpu::ch10::build,
    .features =
        fa::CAUSAL | fa::LSE | fa::KV_HEADS | fa::STRIDES | fa::FP16 | fa::REPEATS | fa::SINKS,
    .check_shape = check_shape,
    .own_breaks = fa::KERNEL_BREAKS,
    .undefined_on_a_gpu = fa::LATE_ZERO,
    .options = OPTIONS,
};

}  // namespace ch10
