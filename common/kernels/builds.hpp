#pragma once
// The two builds of each chapter's kernel, as host code sees them. Only plain data crosses.
// Without a CUDA toolkit the gpu functions exist and say so.

#include "common/kernels/forward.hpp"

#define FA_KERNEL_BUILDS(chNN)                                      \
  namespace emulator::chNN { void forward(const fa::ForwardArgs&); } \
  namespace gpu::chNN { void forward(const fa::ForwardArgs&); }

FA_KERNEL_BUILDS(ch03)
FA_KERNEL_BUILDS(ch04)
FA_KERNEL_BUILDS(ch05)
FA_KERNEL_BUILDS(ch06)
FA_KERNEL_BUILDS(ch07)
FA_KERNEL_BUILDS(ch08)

#undef FA_KERNEL_BUILDS
