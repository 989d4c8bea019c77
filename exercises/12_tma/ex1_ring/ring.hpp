#pragma once
// Which buffer of a ring, and which parity, for each tile.

#include "exercises/support/todo.hpp"

// Tiles are 0, 1, 2, … The ring has `stages` buffers, one or more. Each buffer has two mbarriers,
// full[buffer] and empty[buffer]. A parity is 0 or 1.

// Returns the buffer, 0 to stages - 1, that receives tile `tile`. Tile 0 goes to buffer 0.
inline int buffer_of(int tile, int stages) {
  exercise::todo("TODO(12.1): the buffer, and the two parities");
}

// Returns the parity for the consumer's mbarrier_wait(full[buffer], parity) before it reads a tile.
inline int full_parity(int tile, int stages) {
  exercise::todo("TODO(12.1): the buffer, and the two parities");
}

// Returns the parity for the producer's mbarrier_wait(empty[buffer], parity) before it fills the
// buffer with a tile. In the first pass no consumer has read anything yet, and the wait must return
// immediately.
inline int empty_parity(int tile, int stages) {
  exercise::todo("TODO(12.1): the buffer, and the two parities");
}
