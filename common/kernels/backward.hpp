#pragma once
// The plain data of a backward pass, as it crosses from host code into a kernel build.

#include <cstdint>

#include "common/tensor.hpp"

namespace fa {

// dQ, dK and dV of O = softmax(scale Q K^T) V, for a given dO. The tensors lie in GPU memory, or in
// registered buffers of the emulator, at multiples of 16 bytes. O and LSE are the forward pass's.
struct BackwardArgs {
  TensorRef q, k, v, o, d_o;   // [batch, heads, len, dim]; K and V may have fewer heads
  TensorRef lse;               // [batch, heads, len_q, 1], fp32
  TensorRef dq, dk, dv;        // like Q, K and V
  float* workspace = nullptr;  // backward_workspace() numbers, of any value
  float scale = 1;
  bool causal = false;  // key j is hidden from query i when j > i + (len_kv - len_q)
  uint32_t breaks = 0;  // bits of the chapter's breaks; 0 runs the build that has none compiled in
  int options[2] = {};  // the chapter's own
};

// dQ is summed in tiles of so many queries; of twice as many in chapter 22, at head size 64.
constexpr int64_t BACKWARD_TILE_Q = 64;

// How many floats a backward pass needs for itself: two numbers for each row of Q, dQ in fp32, and
// a count for each tile of it.
constexpr int64_t backward_workspace(const Shape& shape) {
  const int64_t pairs = (shape.q + 2 * BACKWARD_TILE_Q - 1) / (2 * BACKWARD_TILE_Q);
  const int64_t tiles = shape.batch * shape.heads * pairs * 2;
  return tiles * (BACKWARD_TILE_Q * (2 + (shape.dim <= 64 ? 64 : 128)) + 1);
}

}  // namespace fa
