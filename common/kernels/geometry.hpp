#pragma once
// Sizes that the hardware fixes, and the two types that switch breaks.

#include "common/backend.hpp"
#include "common/kernels/forward.hpp"

namespace FA_BACKEND {

using fa::bf16;

constexpr int WARP_SIZE = 32;

// mma.m16n8k16: C [16, 8] += A [16, 16] @ B [16, 8]
constexpr int MMA_M = 16;
constexpr int MMA_N = 8;
constexpr int MMA_K = 16;

FA_DEVICE int warp_index() { return thread_index() / WARP_SIZE; }
FA_DEVICE int lane_index() { return thread_index() % WARP_SIZE; }

FA_HOST_DEVICE constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// A kernel is compiled twice. With NoBreaks, `has` is false at compile time, so every `if
// (!breaks.has(...))` costs nothing. --break uses the build with RuntimeBreaks.
struct NoBreaks {
  FA_HOST_DEVICE static constexpr bool has(uint32_t) { return false; }
};
struct RuntimeBreaks {
  uint32_t mask;
  FA_HOST_DEVICE bool has(uint32_t bit) const { return (mask & bit) != 0; }
};

}  // namespace FA_BACKEND
