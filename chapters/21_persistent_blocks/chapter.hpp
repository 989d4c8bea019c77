#pragma once
// Describes chapter 16's kernel to host code.

#include "breaks.hpp"
#include "chapters/15_overlap/chapter.hpp"

namespace emulator::ch21 {
extern const fa::KernelBuild build;
}
namespace gpu::ch21 {
extern const fa::KernelBuild build;
}

namespace ch21 {

inline constexpr fa::KernelOption OPTIONS[] = {
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

inline constexpr fa::KernelChapter CHAPTER{
    .name = "ch21_persistent_blocks",
    .about = "The maximum on demand: the sums say when it has to be looked for.",
    .emulator = &emulator::ch21::build,
    .gpu = &gpu::ch21::build,
    .features = fa::CAUSAL | fa::WINDOW | fa::LSE | fa::KV_HEADS | fa::STRIDES | fa::PACKED,
    .breaks = fa::NO_MAX | fa::NO_RESCALE | fa::SHUFFLE_MASK_0X10 | fa::MISSING_WAIT |
              fa::SWIZZLE_ONE_SIDE,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu = fa::UNDEFINED_ON_A_GPU | fa::EARLY_RELEASE,
    .options = OPTIONS,
    .previous_name = "ch15_overlap",
    .previous = &emulator::ch15::build,
};

}  // namespace ch21
