#pragma once
// Describes chapter 08's kernel to host code.

#include "chapters/07_better_pipelining/chapter.hpp"

namespace emulator::ch08 {
extern const fa::KernelBuild build;
}
namespace gpu::ch08 {
extern const fa::KernelBuild build;
}

namespace ch08 {

inline constexpr fa::Kernel KERNEL{
    .name = "ch08_fewer_instructions",
    .emulator = &emulator::ch08::build,
    .gpu = &gpu::ch08::build,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
};

}  // namespace ch08
