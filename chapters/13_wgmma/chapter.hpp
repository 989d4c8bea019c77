#pragma once
// Describes chapter 13's kernel to host code.

#include "breaks.hpp"
#include "chapters/12_tma/chapter.hpp"

namespace emulator::ch13 {
extern const fa::KernelBuild build;
}
namespace gpu::ch13 {
extern const fa::KernelBuild build;
}

namespace ch13 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--warpgroups", 1, 2, 2, "warpgroups of a block, 64 queries each [2]", "warpgroups"},
};

inline constexpr fa::Break OWN_BREAKS[] = {
    {"k-descriptor-for-v", fa::K_DESCRIPTOR_FOR_V},
    {"no-wgmma-wait", fa::NO_WGMMA_WAIT},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch13_wgmma",
    .emulator = &emulator::ch13::build,
    .gpu = &gpu::ch13::build,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu = fa::UNDEFINED_ON_A_GPU | fa::NO_WGMMA_WAIT,
    .options = OPTIONS,
};

}  // namespace ch13
