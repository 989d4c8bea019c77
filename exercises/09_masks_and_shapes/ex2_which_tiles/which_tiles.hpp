#pragma once
// Which tiles of keys a tile of queries needs, and which of them need no mask.

#include <algorithm>

#include "exercises/09_masks_and_shapes/mask.hpp"
#include "exercises/support/todo.hpp"

struct Tiles {
  int begin, end;              // tiles with every key that any of the queries sees
  int clear_begin, clear_end;  // tiles in which all of the queries see all keys
};

// For queries [q_tile * BLOCK_Q, (q_tile + 1) * BLOCK_Q), as far as they exist, because there are
// only len_q queries. q_tile * BLOCK_Q is below len_q.
template <int BLOCK_Q, int BLOCK_KV>
Tiles tiles_of(const Mask& mask, int len_q, int q_tile) {
  exercise::todo("TODO(09.2): begin, end, clear_begin and clear_end, from two queries");
}
