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

inline constexpr fa::KernelChapter CHAPTER{
    .name = "ch08_fewer_instructions",
    .about = "32 query rows a warp, and a softmax without what it does not need.",
    .emulator = &emulator::ch08::build,
    .gpu = &gpu::ch08::build,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
    .previous_name = "ch07_better_pipelining",
    .previous = &emulator::ch07::build,
};

}  // namespace ch08
