#pragma once
// The phases in which a tile of queries leaves the two buffers of K to the next tile of queries.

#include "exercises/support/todo.hpp"

// Bit b of `used` is the parity of the phase that the next tile in buffer b completes. Both are 0
// at first. Every tile of queries begins in buffer 0, so its n-th tile of keys is in buffer n % 2.

// Returns the parity, 0 or 1, that a consumer waits for before it reads the n-th tile of keys of
// the current tile of queries. `used` is from before that tile of queries.
inline unsigned parity(unsigned used, int n) {
  exercise::todo("TODO(21.2): the parity to wait for, and what is left to the next tile");
}

// Returns `used` after a tile of queries with `count` tiles of keys.
inline unsigned use(unsigned used, int count) {
  exercise::todo("TODO(21.2): the parity to wait for, and what is left to the next tile");
}
