#pragma once
// With a search instead of a formula, attention_bytes stays the only place that knows what is
// allocated, and the tiles of a context shorter than a block need no separate case. Doubling first
// keeps the numbers small, because the search never asks about a context that is more than twice as
// long as the longest that fits.

#include <algorithm>
#include <cstdint>
#include <functional>

enum class Attention { PLAIN, TILED };

// The context is `length`. A head has `dim` numbers in a row. `block`: rows and columns of a tile.
struct Shape {
  int batch, heads, length, dim, layers, threads, block;
};

// The most that `layers` layers of attention allocate, in bytes.
inline int64_t attention_bytes(Attention attention, const Shape& shape) {
  const int64_t heads = int64_t{shape.batch} * shape.heads, length = shape.length;
  const int64_t threads = std::min<int64_t>(shape.threads, heads);
  const int64_t block = std::min<int64_t>(shape.block, length);
  const int64_t matrices = shape.layers * heads + threads;  // P of all layers, dS of one
  const int64_t rows = 2 * heads * length;                  // LSE and D
  const int64_t tiles = 2 * threads * block * block;        // P and dS
  const int64_t numbers =
      attention == Attention::PLAIN ? matrices * length * length : shape.layers * (rows + tiles);
  return numbers * 4;
}

// bytes(length) is the memory that a context needs. A longer context needs more, and bytes(0) is 0.
// Returns the longest that needs at most `budget`, which is not negative.
inline int longest_context(const std::function<int64_t(int length)>& bytes, int64_t budget) {
  int too_long = 1;
  while (bytes(too_long) <= budget) too_long *= 2;
  int longest = too_long / 2;  // it fits: it was asked about, or is 0
  while (too_long - longest > 1) {
    const int middle = longest + (too_long - longest) / 2;
    (bytes(middle) <= budget ? longest : too_long) = middle;
  }
  return longest;
}
