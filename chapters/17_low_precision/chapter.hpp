#pragma once
// Describes chapter 17's kernel to host code.

#include "breaks.hpp"
#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "computed.hpp"
#include "groups.hpp"

namespace emulator::ch17 {
extern const fa::KernelBuild build;
}
namespace gpu::ch17 {
extern const fa::KernelBuild build;
}

namespace ch17 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--scales", PER_HEAD, PER_THREAD, PER_THREAD,
     "one scale for: 1 each head, 2 each block, 3 each warp's rows, 4 each thread's rows [4]", ""},
    {"--channel-mean", 0, 1000, 0, "K gets a mean in each channel, N times a normal number [0]",
     ""},
    {"--outliers", 0, 1000, 0, "one number of Q and K in 1000, at random, is multiplied by N [0]",
     ""},
};

inline constexpr fa::Break OWN_BREAKS[] = {
    {"no-smoothing", fa::NO_SMOOTHING},
    {"one-scale", fa::ONE_SCALE},
    {"lse-uncorrected", fa::LSE_UNCORRECTED},
    {"late-scale", fa::LATE_SCALE},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch17_low_precision",
    .emulator = &emulator::ch17::build,
    .gpu = &gpu::ch17::build,
    .features = fa::CAUSAL | fa::WINDOW | fa::LSE | fa::KV_HEADS,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
    .own_breaks = OWN_BREAKS,
    .options = OPTIONS,
    .forward_workspace = workspace_bytes,
    .computed = computed,
};

}  // namespace ch17
