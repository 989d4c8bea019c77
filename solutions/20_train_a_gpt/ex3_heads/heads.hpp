#pragma once
// Both functions have the same four loops, because b, h, t and d identify a number in either
// layout, and each layout computes one address from them. Only t and h change places. d stays
// innermost, so both sides go through memory in pieces of D numbers.

#include <cstdint>

#include "exercises/20_train_a_gpt/memory.hpp"

struct Shape {
  int64_t batch, heads, length, dim;
  int64_t channels() const { return heads * dim; }
};

// QKV: [batch * length, 3 * channels], in each row Q, K and V side by side.
// Writes Q, K and V, each [batch, heads, length, dim].
inline void split_heads(const Memory& QKV, const Shape& shape, Memory& Q, Memory& K, Memory& V) {
  const auto [batch, heads, length, dim] = shape;
  const int64_t channels = shape.channels();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < length; ++t)
        for (int64_t d = 0; d < dim; ++d) {
          const int64_t from = (b * length + t) * 3 * channels + h * dim + d;
          const int64_t to = ((b * heads + h) * length + t) * dim + d;
          Q[to] = QKV[from];
          K[to] = QKV[from + channels];
          V[to] = QKV[from + 2 * channels];
        }
}

// O: [batch, heads, length, dim]. Writes joined: [batch * length, channels].
inline void join_heads(const Memory& O, const Shape& shape, Memory& joined) {
  const auto [batch, heads, length, dim] = shape;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < length; ++t)
        for (int64_t d = 0; d < dim; ++d) {
          const int64_t from = ((b * heads + h) * length + t) * dim + d;
          const int64_t to = (b * length + t) * shape.channels() + h * dim + d;
          joined[to] = O[from];
        }
}
