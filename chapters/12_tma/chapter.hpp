#pragma once
// Describes chapter 12's kernel to host code.

#include "breaks.hpp"
#include "chapters/08_fewer_instructions/chapter.hpp"

namespace emulator::ch12 {
extern const fa::KernelBuild build;
}
namespace gpu::ch12 {
extern const fa::KernelBuild build;
}

namespace ch12 {

inline constexpr fa::Break OWN_BREAKS[] = {
    {"expect-too-little", fa::EXPECT_TOO_LITTLE},
    {"wrong-parity", fa::WRONG_PARITY},
    {"no-init-fence", fa::NO_INIT_FENCE},
    {"flat-map", fa::FLAT_MAP},
};

inline constexpr fa::Kernel KERNEL{
    .name = "ch12_tma",
    .emulator = &emulator::ch12::build,
    .gpu = &gpu::ch12::build,
    .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE,
    .own_breaks = OWN_BREAKS,
    .undefined_on_a_gpu =
        fa::UNDEFINED_ON_A_GPU | fa::EXPECT_TOO_LITTLE | fa::WRONG_PARITY | fa::NO_INIT_FENCE,
};

}  // namespace ch12
