#pragma once
// Describes chapter 16's kernel to host code.

#include "breaks.hpp"
#include "chapters/15_overlap/chapter.hpp"

namespace emulator::ch16 {
extern const fa::KernelBuild build;
}
namespace gpu::ch16 {
extern const fa::KernelBuild build;
}

namespace ch16 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--consumers", 0, 3, 0, "2 or 3 consumer warpgroups of 64 queries; 0: by the shape [0]",
     "consumers"},
    {"--blocks", 0, 1 << 20, 0,
     "blocks, which take one tile of queries after the other; 0: by the shape [0]", "blocks"},
};

inline constexpr fa::Break OWN_BREAKS[] = {
    {"no-sum-check", fa::NO_SUM_CHECK},   {"early-release", fa::EARLY_RELEASE},
    {"top-left", fa::TOP_LEFT_MASK},      {"unmasked-diagonal", fa::UNMASKED_DIAGONAL},
    {"no-second-try", fa::NO_SECOND_TRY},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch16_maximum_on_demand",
    .emulator = &emulator::ch16::build,
    .gpu = &gpu::ch16::build,
    .features =
        fa::CAUSAL | fa::WINDOW | fa::LSE | fa::KV_HEADS | fa::STRIDES | fa::PACKED | fa::SINKS,
    .breaks = fa::NO_MAX | fa::NO_RESCALE | fa::SHUFFLE_MASK_0X10 | fa::MISSING_WAIT |
              fa::SWIZZLE_ONE_SIDE,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu = fa::UNDEFINED_ON_A_GPU | fa::EARLY_RELEASE,
    .options = OPTIONS,
};

}  // namespace ch16
