#pragma once
// Describes chapter 07's kernel to host code.

#include "chapters/06_ldmatrix_x4/chapter.hpp"

namespace emulator::ch07 {
extern const fa::KernelBuild build;
}
namespace gpu::ch07 {
extern const fa::KernelBuild build;
}

namespace ch07 {

inline constexpr fa::Kernel KERNEL{
    .name = "ch07_better_pipelining",
    .emulator = &emulator::ch07::build,
    .gpu = &gpu::ch07::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
};

}  // namespace ch07
