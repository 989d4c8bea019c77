#pragma once
// Chapter 11's kernels as host code sees them.

#include "common/kernels/chapter.hpp"

namespace emulator::ch11 {
extern const fa::KernelBuild build;
}
namespace gpu::ch11 {
extern const fa::KernelBuild build;
}
