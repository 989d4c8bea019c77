#pragma once
// Describes chapter 14's kernel to host code.

#include "breaks.hpp"
#include "chapters/13_wgmma/chapter.hpp"

namespace emulator::ch14 {
extern const fa::KernelBuild build;
}
namespace gpu::ch14 {
extern const fa::KernelBuild build;
}

namespace ch14 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--consumers", 2, 3, 3, "consumer warpgroups of a block, 64 queries each [3]", "consumers"},
};

inline constexpr fa::Break OWN_BREAKS[] = {
    {"empty-count", fa::EMPTY_COUNT},
    {"no-empty-wait", fa::NO_EMPTY_WAIT},
    {"full-for-empty", fa::FULL_FOR_EMPTY},
    {"keep-registers", fa::KEEP_REGISTERS},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch14_warp_specialization",
    .emulator = &emulator::ch14::build,
    .gpu = &gpu::ch14::build,
    .breaks =
        (fa::BASIC_BREAKS & ~(fa::MISSING_BARRIER | fa::DIVERGENT_BARRIER)) | fa::SWIZZLE_ONE_SIDE,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu = fa::UNDEFINED_ON_A_GPU | fa::EMPTY_COUNT | fa::NO_EMPTY_WAIT |
                          fa::FULL_FOR_EMPTY | fa::KEEP_REGISTERS,
    .options = OPTIONS,
};

}  // namespace ch14
