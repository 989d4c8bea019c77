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

inline constexpr fa::KernelOption OPTIONS[] = {
    {"--stages", 2, 4, 2, "buffers for K and for V [2]", "stages"},
};

inline constexpr fa::KernelChapter CHAPTER{
    .name = "ch05_pipelining",
    .about = "Loads the next tile while computing this one.",
    .emulator = &emulator::ch05::build,
    .gpu = &gpu::ch05::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
    .options = OPTIONS,
    .previous_name = "ch04_swizzling",
    .previous = &emulator::ch04::build,
};

}  // namespace ch05
