#pragma once
// Why the turns follow from the launch: with room for one block at a time, each must find all those
// that started before it done, and wait for no other block. Why the last key tile starts first:
// causal, block k of it reaches a tile of queries one step behind the block that started before it.

#include "exercises/10_backward/grid.hpp"

// The tile of keys that block `block` owns, 0 to kv_tiles - 1. Blocks start in this order; not all
// may fit on the machine, and the others start when one has finished.
inline int kv_tile_of(int block, const Grid& grid) { return grid.kv_tiles - 1 - block; }

// How many additions to dQ of tile q_tile there must have been before the block of kv_tile may add
// to it. Asked only if q_tile sees kv_tile: kv_tile <= grid.last_kv_tile(q_tile).
inline int turn_of(int kv_tile, int q_tile, const Grid& grid) {
  return grid.last_kv_tile(q_tile) - kv_tile;
}
