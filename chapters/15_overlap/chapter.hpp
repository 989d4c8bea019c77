#pragma once
// Describes chapter 15's kernel to host code.

#include "breaks.hpp"
#include "chapters/14_warp_specialization/chapter.hpp"

namespace emulator::ch15 {
extern const fa::KernelBuild build;
}
namespace gpu::ch15 {
extern const fa::KernelBuild build;
}

namespace ch15 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--consumers", 2, 3, 3, "consumer warpgroups of a block, 64 queries each [3]", "consumers"},
    {"--ping-pong", 0, 1, 0, "1: the consumers multiply one after the other [0]", "with ping-pong"},
};

inline constexpr fa::Break OWN_BREAKS[] = {
    {"early-pack", fa::EARLY_PACK},
    {"early-rescale", fa::EARLY_RESCALE},
    {"wait-for-neither", fa::WAIT_FOR_NEITHER},
    {"no-first-turn", fa::NO_FIRST_TURN},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch15_overlap",
    .emulator = &emulator::ch15::build,
    .gpu = &gpu::ch15::build,
    .breaks =
        (fa::BASIC_BREAKS & ~(fa::MISSING_BARRIER | fa::DIVERGENT_BARRIER)) | fa::SWIZZLE_ONE_SIDE,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu = fa::UNDEFINED_ON_A_GPU | fa::EARLY_PACK | fa::EARLY_RESCALE |
                          fa::WAIT_FOR_NEITHER | fa::NO_FIRST_TURN,
    .options = OPTIONS,
};

}  // namespace ch15
