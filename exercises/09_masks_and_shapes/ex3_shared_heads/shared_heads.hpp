#pragma once
// The address of a row of K, when heads are shared and tensors are slices.

#include <cstdint>

#include "exercises/support/todo.hpp"

constexpr int64_t ELEMENT = 2;  // bytes of a number

// [batch, heads, len, dim], all in bytes, which are the start of its first row, and the distances
// from one batch, head and row to the next. The elements of a row are contiguous.
struct Tensor {
  int64_t start;
  int64_t batch, head, row;
};

struct Params {
  Tensor Q, K, V;
  int heads;  // number of heads of Q
  int group;  // number of consecutive query heads that share a head of K and V
};

// Returns the byte at which row `row` begins in the head of K that query head `head` reads.
inline int64_t K_row(const Params& p, int batch, int head, int row) {
  exercise::todo("TODO(09.3): the head of K, then its start and three steps");
}

// Q, K and V as slices of [batch, len, heads + 2 kv_heads, dim], which begins at byte 0.
inline Params fused_qkv(int len, int heads, int kv_heads, int dim) {
  exercise::todo("TODO(09.3): where Q, K and V begin, their strides, heads and group");
}
