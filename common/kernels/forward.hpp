#pragma once
// The plain data that crosses from host code into a kernel build, and the two builds of a chapter.

#include <cstdint>

#include "common/half.hpp"

namespace fa {

// One forward pass: O = softmax(scale Q K^T) V. Pointers are device pointers on the GPU, registered
// buffers on the emulator; all are 16-byte aligned, row-major [batch*heads, length, head_dim].
struct ForwardArgs {
  const bf16* Q;
  const bf16* K;
  const bf16* V;
  bf16* O;
  int batch_heads;
  int len_q, len_kv;
  int head_dim;     // 64 or 128
  float scale;
  uint32_t breaks;  // KernelBreak bits; 0 runs the build that has none compiled in
  int stages;       // tiles in flight, where a chapter has the choice; else ignored
};

// One bit for each line that --break can switch off in chapters 03 to 08.
enum KernelBreak : uint32_t {
  NO_MAX = 1u << 0,
  NO_RESCALE = 1u << 1,
  UNMASKED_TAIL = 1u << 2,
  SHUFFLE_MASK_0X10 = 1u << 3,
  CONDITIONAL_COMMIT = 1u << 4,
  MISSING_WAIT = 1u << 5,
  MISSING_BARRIER = 1u << 6,
  SWIZZLE_ONE_SIDE = 1u << 7,
  WAIT_TOO_FEW = 1u << 8,
  DIVERGENT_BARRIER = 1u << 9,
};

}  // namespace fa
