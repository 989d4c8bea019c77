#pragma once
// In which order blocks add to dQ, so that the sum is the same in every run.

#include "exercises/10_backward/grid.hpp"
#include "exercises/support/todo.hpp"

// The tile of keys that block `block` owns, 0 to kv_tiles - 1. Blocks start in this order. If not
// all fit on the machine, the others start when one has finished.
inline int kv_tile_of(int block, const Grid& grid) {
  exercise::todo("TODO(10.5): which tile of keys each block takes");
}

// Returns how many additions to dQ of tile q_tile must have happened before the block of kv_tile
// may add to it. Called only if q_tile sees kv_tile, that is, kv_tile <= grid.last_kv_tile(q_tile).
inline int turn_of(int kv_tile, int q_tile, const Grid& grid) {
  exercise::todo("TODO(10.5): the turn of this tile of keys at this tile of queries");
}
