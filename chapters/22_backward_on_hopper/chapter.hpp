#pragma once
// Describes chapter 22's kernels to host code.

#include "breaks.hpp"
#include "chapters/10_backward/chapter.hpp"

namespace emulator::ch22 {
extern const fa::KernelBuild build;
}
namespace gpu::ch22 {
extern const fa::KernelBuild build;
}

namespace ch22 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--heads-at-once", 0, 64, 0,
     "heads of K and V whose blocks take turns in the grid [0: 1 to 4 if causal, otherwise 1]",
     "heads at once"},
    {"--deterministic", 0, 1, 0, "dQ is summed in one order", "deterministic"},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch22_backward_on_hopper",
    .emulator = &emulator::ch22::build,
    .gpu = &gpu::ch22::build,
    .features = fa::CAUSAL | fa::WINDOW | fa::LSE | fa::KV_HEADS | fa::STRIDES | fa::FP16 |
                fa::SINKS | fa::PACKED,
    .own_breaks = fa::HOPPER_BACKWARD_BREAKS,
    .undefined_on_a_gpu =
        fa::REDUCE_BEFORE_LANDED | fa::DQ_OVERWRITTEN | fa::DS_WITHOUT_FENCE | fa::DQ_NOT_CLEARED,
    .options = OPTIONS,
};

}  // namespace ch22
