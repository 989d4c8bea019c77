#pragma once
// The start moves back, so that block n comes to a tile `rotation` iterations after block n - 1,
// which by then has had time to complete its additions. The turn is a count, because it is the rank
// of the iteration among those of all blocks.

// All kv_tiles blocks of a head run at the same time, one per tile of keys. Each visits all q_tiles
// tiles of queries in a circle, so that tile 0 comes after tile q_tiles - 1. kv_tiles <= q_tiles.
struct Head {
  int q_tiles, kv_tiles;
};

// The tile of queries at which the block of `kv_tile` starts, 0 to q_tiles - 1.
inline int first_tile(int kv_tile, const Head& head) {
  const int rotation = head.q_tiles / head.kv_tiles;
  return (head.q_tiles - kv_tile * rotation) % head.q_tiles;
}

// The iteration in which a block visits a tile.
inline int iteration_of(int kv_tile, int q_tile, const Head& head) {
  return (q_tile - first_tile(kv_tile, head) + head.q_tiles) % head.q_tiles;
}

// Returns how many blocks must have added to q_tile before the block of `kv_tile` may add to it,
// which is its turn, 0 to kv_tiles - 1. At each tile of queries, every block has a different turn.
inline int turn_of(int kv_tile, int q_tile, const Head& head) {
  const int iteration = iteration_of(kv_tile, q_tile, head);
  int turn = 0;
  for (int n = 0; n < head.kv_tiles; ++n) turn += iteration_of(n, q_tile, head) < iteration;
  return turn;
}
