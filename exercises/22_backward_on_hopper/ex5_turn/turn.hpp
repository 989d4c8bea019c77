#pragma once
// In which order the blocks of a head add to dQ, if they start at different tiles of queries.

#include "exercises/support/todo.hpp"

// All kv_tiles blocks of a head run at the same time, one per tile of keys. Each visits all q_tiles
// tiles of queries in a circle, so that tile 0 comes after tile q_tiles - 1. kv_tiles <= q_tiles.
struct Head {
  int q_tiles, kv_tiles;
};

// The tile of queries at which the block of `kv_tile` starts, 0 to q_tiles - 1.
inline int first_tile(int kv_tile, const Head& head) {
  exercise::todo("TODO(22.5): where a block starts, and its turn at each tile");
}

// Returns how many blocks must have added to q_tile before the block of `kv_tile` may add to it,
// which is its turn, 0 to kv_tiles - 1. At each tile of queries, every block has a different turn.
inline int turn_of(int kv_tile, int q_tile, const Head& head) {
  exercise::todo("TODO(22.5): where a block starts, and its turn at each tile");
}
