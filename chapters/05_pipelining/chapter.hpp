#pragma once
// Describes chapter 05's kernel to host code.

#include "chapters/04_swizzling/chapter.hpp"

namespace emulator::ch05 {
extern const fa::KernelBuild build;
}
namespace gpu::ch05 {
extern const fa::KernelBuild build;
}

namespace ch05 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--stages", 2, 4, 2, "buffers for K and for V [2]", "stages"},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch05_pipelining",
    .emulator = &emulator::ch05::build,
    .gpu = &gpu::ch05::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
    .options = OPTIONS,
};

}  // namespace ch05
