#pragma once
// Chapter 12 as host code sees it.

#include "chapters/08_fewer_instructions/chapter.hpp"

namespace emulator::ch12 {
extern const fa::KernelBuild build;
}
namespace gpu::ch12 {
extern const fa::KernelBuild build;
}

namespace ch12 {

inline constexpr fa::KernelChapter CHAPTER{
    .name = "ch12_tma",
    .about = "Tiles by TMA: one instruction of one thread.",
    .emulator = &emulator::ch12::build,
    .gpu = &gpu::ch12::build,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE,
    .previous_name = "ch08_fewer_instructions",
    .previous = &emulator::ch08::build,
};

}  // namespace ch12
