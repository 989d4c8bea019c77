#pragma once
// Which tile of which head a block computes.

#include <algorithm>

#include "exercises/support/todo.hpp"

struct Work {
  int head, q_tile;
};

// The work of block `index`, 0 to heads * q_tiles - 1. Heads in groups of `together`, 1 to heads,
// in the order of head 0 to together - 1, then the next heads, and the last group may be smaller.
// In a group tile q_tiles - 1 of all its heads, one head after the other, then tile q_tiles - 2,
// and so on to tile 0.
inline Work work_of(int index, int heads, int q_tiles, int together) {
  exercise::todo("TODO(16.4): the head and the tile of queries");
}
