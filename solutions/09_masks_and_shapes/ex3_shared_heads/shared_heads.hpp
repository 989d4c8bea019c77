#pragma once
// Q, K and V of a fused tensor have the same strides and differ only in where they begin. With
// strides, nothing has to be copied. A division finds the head of K, because heads of Q that share
// a head of K are consecutive. A program that divides its heads among several GPUs then divides K
// and V at the same places.

#include <cstdint>

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
  const int kv_head = head / p.group;
  return p.K.start + batch * p.K.batch + kv_head * p.K.head + row * p.K.row;
}

// Q, K and V as slices of [batch, len, heads + 2 kv_heads, dim], which begins at byte 0.
inline Params fused_qkv(int len, int heads, int kv_heads, int dim) {
  const int64_t head = dim * ELEMENT, row = (heads + 2 * kv_heads) * head, batch = len * row;
  return {.Q = {0, batch, head, row},
          .K = {heads * head, batch, head, row},
          .V = {(heads + kv_heads) * head, batch, head, row},
          .heads = heads,
          .group = heads / kv_heads};
}
