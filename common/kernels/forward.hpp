#pragma once
// The arguments of a forward pass, as plain data that host code passes to a kernel build.

#include <cstdint>

#include "common/tensor.hpp"

namespace fa {

// One forward pass, O = softmax(scale Q K^T) V. The tensors are in GPU memory or in registered
// buffers of the emulator, aligned to 16 bytes. check_arguments has refused what the chapter's
// Kernel does not support before the launcher is called.
struct ForwardArgs {
  TensorRef q, k, v;   // [batch, heads, len, dim]; K and V may have fewer heads
  TensorRef o;         // shape of Q
  TensorRef lse = {};  // [batch, heads, len_q, 1], fp32; no data: not wanted
  float scale = 1;
  // Query i sees keys i + (len_kv - len_q) - window_left to i + (len_kv - len_q) + window_right;
  // -1 means no limit.
  int64_t window_left = -1, window_right = -1;  // a causal mask has window_right 0
  // Packed sequences, in batch 1. Sequence n is rows [q_starts[n], q_starts[n + 1]) of Q and O, and
  // rows [kv_starts[n], kv_starts[n + 1]) of K and V. Both arrays have `sequences` + 1 elements and
  // are in the memory of the device that runs the kernel.
  const int *q_starts = nullptr, *kv_starts = nullptr;
  int64_t sequences = 0, longest_q = 0;
  float softcap = 0;   // scores become softcap * tanh(score / softcap), unless softcap is 0
  bool alibi = false;  // subtracts fa::alibi_slope from a score for each key of distance
  const float* sinks = nullptr;  // [heads]: a logit that only the softmax's sum counts, or -inf
  uint32_t breaks = 0;           // bits of the chapter's breaks; 0 selects the build without breaks
  float* workspace = nullptr;    // Kernel::forward_workspace bytes, uninitialized
  int options[5] = {};           // options of the chapter, in the order of Kernel::options
};

// A bit for each break that several chapters share. Breaks of a single chapter are in its own
// chapter.hpp, from OWN_BREAK upwards.
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
