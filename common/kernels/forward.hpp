#pragma once
// The plain data that crosses from host code into a kernel build.

#include <cstdint>

#include "common/tensor.hpp"

namespace fa {

// One forward pass: O = softmax(scale Q K^T) V. The tensors lie in GPU memory, or in registered
// buffers of the emulator, at multiples of 16 bytes. A chapter takes what its KernelChapter says;
// check_arguments has refused the rest before a kernel's launcher sees it.
struct ForwardArgs {
  TensorRef q, k, v;   // [batch, heads, len, dim]; K and V may have fewer heads
  TensorRef o;         // like Q
  TensorRef lse = {};  // [batch, heads, len_q, 1], fp32; without data: not wanted
  float scale = 1;
  // Query i sees keys i + (len_kv - len_q) - window_left up to … + window_right; -1: no limit.
  int64_t window_left = -1, window_right = -1;  // causal: right 0
  // Packed sequences, in batch 1: sequence n is rows [q_starts[n], q_starts[n + 1]) of Q and O, and
  // [kv_starts[n], kv_starts[n + 1]) of K and V. `sequences` + 1 numbers each, where the kernel
  // runs.
  const int *q_starts = nullptr, *kv_starts = nullptr;
  int64_t sequences = 0, longest_q = 0;
  float softcap = 0;    // scores become softcap * tanh(score / softcap), before the mask; 0: none
  bool alibi = false;   // a head's scores lose fa::alibi_slope for each key of distance
  uint32_t breaks = 0;  // bits of the chapter's breaks; 0 runs the build that has none compiled in
  float* workspace = nullptr;  // KernelChapter::forward_workspace bytes, of any value
  int options[5] = {};         // the chapter's own, in the order of KernelChapter::options
};

// One bit for each line that --break can switch off in several chapters. What only one chapter can
// switch off stands in its own chapter.hpp, from OWN_BREAK up.
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
  OWN_BREAK = 1u << 16,
};

}  // namespace fa
