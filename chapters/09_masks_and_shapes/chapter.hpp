#pragma once
// Describes chapter 09's kernel to host code.

#include "breaks.hpp"
#include "chapters/08_fewer_instructions/chapter.hpp"
#include "common/error.hpp"

namespace emulator::ch09 {
extern const fa::KernelBuild build;
}
namespace gpu::ch09 {
extern const fa::KernelBuild build;
}

namespace ch09 {

inline constexpr fa::Break OWN_BREAKS[] = {
    {"mask-every-tile", fa::MASK_EVERY_TILE},     {"top-left", fa::TOP_LEFT},
    {"window-off-by-one", fa::WINDOW_OFF_BY_ONE}, {"modulo-heads", fa::MODULO_HEADS},
    {"unguarded-max", fa::UNGUARDED_MAX},         {"softcap-after-mask", fa::SOFTCAP_AFTER_MASK},
    {"late-sequence", fa::LATE_SEQUENCE},         {"sink-not-rescaled", fa::SINK_NOT_RESCALED},
};

// Throws InputError unless the head size is a multiple of 8 up to 256 and an int holds the lengths.
inline void check_shape(const fa::Shape& shape) {
  if (shape.dim % 8 != 0 || shape.dim > 256) {
    throw fa::InputError("head size " + std::to_string(shape.dim) +
                         ": this chapter's kernel takes multiples of 8 up to 256");
  }
  fa::check_kernel_lengths(shape);
}

inline constexpr fa::Kernel KERNEL{
    .name = "ch09_masks_and_shapes",
    .emulator = &emulator::ch09::build,
    .gpu = &gpu::ch09::build,
    .features = fa::CAUSAL | fa::WINDOW | fa::LSE | fa::KV_HEADS | fa::STRIDES | fa::FP16 |
                fa::PACKED | fa::SOFTCAP | fa::ALIBI | fa::REPEATS | fa::SINKS,
    .check_shape = check_shape,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu = fa::UNDEFINED_ON_A_GPU | fa::LATE_SEQUENCE,  // it reads out of bounds
};

}  // namespace ch09
