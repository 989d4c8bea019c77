#pragma once
// Describes chapter 23's kernel to host code.

#include "breaks.hpp"
#include "chapters/16_maximum_on_demand/chapter.hpp"
#include "computed.hpp"

namespace emulator::ch23 {
extern const fa::KernelBuild build;
}
namespace gpu::ch23 {
extern const fa::KernelBuild build;
}

namespace ch23 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--stay", 0, 1 << 20, 0,
     "tiles of 128 keys that O stays in the tensor core, before it is added up in fp32; 0: 2 [0]",
     ""},
    {"--channel-mean", 0, 1000, 0, "K gets a mean in each channel, N times a normal number [0]",
     ""},
    {"--outliers", 0, 1000, 0, "one number of Q and K in 1000, at random, is multiplied by N [0]",
     ""},
    {"--v-drift", 0, 1000, 0, "V falls from N above to N below, from the first key to the last [0]",
     ""},
    {"--sink", 0, 1000, 0, "the first key scores N with every query, and its V is 0 [0]", ""},
};

inline constexpr fa::Break OWN_BREAKS[] = {
    {"no-smoothing", fa::FP8_NO_SMOOTHING},
    {"lse-uncorrected", fa::FP8_LSE_UNCORRECTED},
    {"p-unscaled", fa::P_UNSCALED},
    {"one-level", fa::ONE_LEVEL},
    {"keys-in-order", fa::KEYS_IN_ORDER},
    {"no-sum-check", fa::FP8_NO_SUM_CHECK},
    {"no-bound", fa::NO_BOUND},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch23_fp8",
    .emulator = &emulator::ch23::build,
    .gpu = &gpu::ch23::build,
    .features = fa::CAUSAL | fa::WINDOW | fa::LSE | fa::KV_HEADS,
    .breaks = fa::NO_RESCALE | fa::SHUFFLE_MASK_0X10 | fa::MISSING_WAIT | fa::SWIZZLE_ONE_SIDE,
    .own_breaks = OWN_BREAKS,
    .options = OPTIONS,
    .forward_workspace = workspace_bytes,
    .computed = computed,
};

}  // namespace ch23
