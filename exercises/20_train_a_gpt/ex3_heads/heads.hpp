#pragma once
// From the product that makes Q, K and V of all heads to one tensor each, and back.

#include <cstdint>

#include "exercises/20_train_a_gpt/memory.hpp"
#include "exercises/support/todo.hpp"

struct Shape {
  int64_t batch, heads, length, dim;
  int64_t channels() const { return heads * dim; }
};

// QKV: [batch * length, 3 * channels], in each row Q, K and V side by side.
// Writes Q, K and V, each [batch, heads, length, dim].
inline void split_heads(const Memory& QKV, const Shape& shape, Memory& Q, Memory& K, Memory& V) {
  exercise::todo("TODO(20.3): each number of Q, K and V from its row and column of QKV");
}

// O: [batch, heads, length, dim]. Writes joined: [batch * length, channels].
inline void join_heads(const Memory& O, const Shape& shape, Memory& joined) {
  exercise::todo("TODO(20.3): each number of O to its row and column of joined");
}
