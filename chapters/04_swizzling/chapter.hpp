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

inline constexpr fa::KernelChapter CHAPTER{
    .name = "ch04_swizzling",
    .about = "The same kernel without bank conflicts: chunks XORed with their row's number.",
    .emulator = &emulator::ch04::build,
    .gpu = &gpu::ch04::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE,
    .previous_name = "ch03_basic_kernel",
    .previous = &emulator::ch03::build,
};

}  // namespace ch04
