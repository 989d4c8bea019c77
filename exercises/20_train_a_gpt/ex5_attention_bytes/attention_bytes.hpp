#pragma once
// The memory that attention keeps for its backward pass, and the longest context that fits.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "exercises/support/todo.hpp"

enum class Attention { PLAIN, TILED };

// The context is `length`. A head has `dim` numbers in a row. `block`: rows and columns of a tile.
struct Shape {
  int batch, heads, length, dim, layers, threads, block;
};

// The most that `layers` layers of attention allocate, in bytes.
inline int64_t attention_bytes(Attention attention, const Shape& shape) {
  exercise::todo("TODO(20.5): the matrices of plain attention, the rows and tiles of tiled");
}

// bytes(length) is the memory that a context needs. A longer context needs more, and bytes(0) is 0.
// Returns the longest that needs at most `budget`, which is not negative.
inline int longest_context(const std::function<int64_t(int length)>& bytes, int64_t budget) {
  exercise::todo("TODO(20.5): the longest context that fits");
}
