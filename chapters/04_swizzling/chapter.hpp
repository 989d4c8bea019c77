#pragma once
// Describes chapter 04's kernel to host code.

#include "chapters/03_basic_kernel/chapter.hpp"

namespace emulator::ch04 {
extern const fa::KernelBuild build;
}
namespace gpu::ch04 {
extern const fa::KernelBuild build;
}

namespace ch04 {

inline constexpr fa::Kernel KERNEL{
    .name = "ch04_swizzling",
    .emulator = &emulator::ch04::build,
    .gpu = &gpu::ch04::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE,
};

}  // namespace ch04
