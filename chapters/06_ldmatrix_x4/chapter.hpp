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

inline constexpr fa::KernelChapter CHAPTER{
    .name = "ch06_ldmatrix_x4",
    .about = "Half the ldmatrix instructions for the same bytes.",
    .emulator = &emulator::ch06::build,
    .gpu = &gpu::ch06::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
    .previous_name = "ch05_pipelining",
    .previous = &emulator::ch05::build,
};

}  // namespace ch06
