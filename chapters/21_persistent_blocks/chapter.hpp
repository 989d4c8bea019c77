#pragma once
// Describes chapter 21's kernel to host code.

#include "breaks.hpp"
#include "chapters/16_maximum_on_demand/chapter.hpp"

namespace emulator::ch21 {
extern const fa::KernelBuild build;
}
namespace gpu::ch21 {
extern const fa::KernelBuild build;
}

namespace ch21 {

inline constexpr fa::IntegerOption OPTIONS[] = {
    {"--consumers", 0, 3, 0, "2 or 3 consumer warpgroups of 64 queries; 0: by the shape [0]",
     "consumers"},
    {"--blocks", 0, 1 << 20, 0,
     "blocks, which take one tile of queries after the other; 0: by the shape [0]", "blocks"},
};

inline constexpr fa::Break OWN_BREAKS[] = {
    {"early-index", fa::EARLY_INDEX},           {"q-over-q", fa::Q_OVER_Q},
    {"no-store-wait", fa::NO_STORE_WAIT},       {"no-store-fence", fa::NO_STORE_FENCE},
    {"restarted-phases", fa::RESTARTED_PHASES},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch21_persistent_blocks",
    .emulator = &emulator::ch21::build,
    .gpu = &gpu::ch21::build,
    .features =
        fa::CAUSAL | fa::WINDOW | fa::LSE | fa::KV_HEADS | fa::STRIDES | fa::PACKED | fa::SINKS,
    .breaks = fa::MISSING_WAIT,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu = fa::UNDEFINED_ON_A_GPU | fa::EARLY_INDEX | fa::Q_OVER_Q |
                          fa::NO_STORE_WAIT | fa::NO_STORE_FENCE | fa::RESTARTED_PHASES,
    .options = OPTIONS,
    .forward_workspace = [](const fa::Shape&, int64_t) { return int64_t{16}; },  // the counter
};

}  // namespace ch21
