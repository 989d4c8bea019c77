#pragma once
// The arguments of a backward pass, as plain data that host code passes to a kernel build.

#include <cstdint>

#include "common/tensor.hpp"

namespace fa {

// dQ, dK and dV of O = softmax(scale Q K^T) V for a given dO. The tensors are in GPU memory or in
// registered buffers of the emulator, aligned to 16 bytes. O and LSE come from the forward pass.
struct BackwardArgs {
  TensorRef q, k, v, o, d_o;   // [batch, heads, len, dim]; K and V may have fewer heads
  TensorRef lse;               // [batch, heads, len_q, 1], fp32
  TensorRef dq, dk, dv;        // shapes of Q, K and V
  float* workspace = nullptr;  // backward_workspace() floats, uninitialized
  float scale = 1;
  bool causal = false;  // key j is masked from query i when j > i + (len_kv - len_q)
  int64_t window_left = -1, window_right = -1;  // as in ForwardArgs
  // Packed sequences, as in ForwardArgs.
  const int *q_starts = nullptr, *kv_starts = nullptr;
  int64_t sequences = 0;
  const float* sinks = nullptr;  // [heads], as in ForwardArgs: LSE contains them
  float* d_sinks = nullptr;      // [heads]: their gradients, or null if they are not wanted
  uint32_t breaks = 0;           // bits of the chapter's breaks; 0 selects the build without breaks
  int options[2] = {};           // options of the chapter
};

// Queries per tile in which dQ is summed. Chapter 22 uses twice as many at head size 64.
constexpr int64_t BACKWARD_TILE_Q = 64;

// Returns the floats that a backward pass needs as workspace, which are six per row of Q (LSE, D,
// and in chapter 22 both as 16 bytes), dQ in fp32, and a counter per tile of dQ. `sequences` is the
// number of packed sequences, or 0; each may fill its last tile in part.
constexpr int64_t backward_workspace(const Shape& shape, int64_t sequences = 0) {
  const int64_t pairs = (shape.q + 2 * BACKWARD_TILE_Q - 1) / (2 * BACKWARD_TILE_Q) + sequences;
  const int64_t tiles = shape.batch * shape.heads * pairs * 2;
  return tiles * (BACKWARD_TILE_Q * (6 + (shape.dim <= 64 ? 64 : 128)) + 1);
}

}  // namespace fa
