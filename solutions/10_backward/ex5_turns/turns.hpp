#pragma once
// The turns follow from the launch. If the machine has room for only one block at a time, each
// block must find that all blocks that started before it are done, and may not wait for any other.
// The last tile of keys starts first, because with a causal mask a block then reaches a tile of
// queries one step after the block that started before it.

#include "exercises/10_backward/grid.hpp"

// The tile of keys that block `block` owns, 0 to kv_tiles - 1. Blocks start in this order. If not
// all fit on the machine, the others start when one has finished.
inline int kv_tile_of(int block, const Grid& grid) { return grid.kv_tiles - 1 - block; }

// Returns how many additions to dQ of tile q_tile must have happened before the block of kv_tile
// may add to it. Called only if q_tile sees kv_tile, that is, kv_tile <= grid.last_kv_tile(q_tile).
inline int turn_of(int kv_tile, int q_tile, const Grid& grid) {
  return grid.last_kv_tile(q_tile) - kv_tile;
}
