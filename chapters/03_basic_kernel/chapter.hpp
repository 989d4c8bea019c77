#pragma once
// Describes chapter 03's kernel to host code.

#include "common/kernels/kernel.hpp"

namespace emulator::ch03 {
extern const fa::KernelBuild build;
}
namespace gpu::ch03 {
extern const fa::KernelBuild build;
}

namespace ch03 {

inline constexpr fa::Kernel KERNEL{
    .name = "ch03_basic_kernel",
    .emulator = &emulator::ch03::build,
    .gpu = &gpu::ch03::build,
    .any_scale = true,
    .breaks = fa::BASIC_BREAKS,
};

}  // namespace ch03
