#pragma once
// Describes chapter 06's kernel to host code.

#include "chapters/05_pipelining/chapter.hpp"

namespace emulator::ch06 {
extern const fa::KernelBuild build;
}
namespace gpu::ch06 {
extern const fa::KernelBuild build;
}

namespace ch06 {

inline constexpr fa::Kernel KERNEL{
    .name = "ch06_ldmatrix_x4",
    .emulator = &emulator::ch06::build,
    .gpu = &gpu::ch06::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
};

}  // namespace ch06
