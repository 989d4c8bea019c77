#pragma once
// Where a row of K lies, when heads are shared and tensors are slices.

#include <cstdint>

constexpr int64_t ELEMENT = 2;  // bytes of a number

// [batch, heads, len, dim], all in bytes: where its first row begins, and how far it is from one
// batch, head, row to the next. A row itself is contiguous.
struct Tensor {
  int64_t start;
  int64_t batch, head, row;
};

struct Params {
  Tensor Q, K, V;
  int heads;  // of Q
  int group;  // so many query heads in a row share a head of K and V
};

// Where row `row` begins of the K that query head `head` reads.
inline int64_t K_row(const Params& p, int batch, int head, int row) {
  const Tensor& K = p.K;
  return K.start + batch * K.batch + head * K.head / p.group + row * K.row;
}

// Q, K and V as they lie in [batch, len, heads + 2 kv_heads, dim]; it begins at byte 0.
inline Params fused_qkv(int len, int heads, int kv_heads, int dim) {
  const int64_t bytes = dim * ELEMENT;
  const int64_t row = (heads + 2 * kv_heads) * bytes;
  const int64_t batch = len * row;
  Params p;
  p.Q = {0, batch, bytes, row};
  p.K = {heads * bytes, batch, bytes, row};
  p.V = {(heads + kv_heads) * bytes, batch, bytes, row};
  p.heads = heads;
  p.group = heads / kv_heads;
  return p;
}
