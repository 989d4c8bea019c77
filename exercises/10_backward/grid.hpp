#pragma once
// The tiles of a head, for 10.5.

#include <algorithm>

struct Grid {
  int q_tiles, kv_tiles;
  bool causal;
  int block_q, block_kv, diagonal;  // with causal, query i sees key j if j <= i + diagonal

  // Returns the last tile of keys that a tile of queries sees, or -1 if it sees none. It also sees
  // all tiles before that one.
  int last_kv_tile(int q_tile) const {
    if (!causal) return kv_tiles - 1;
    const int last_key = (q_tile + 1) * block_q - 1 + diagonal;
    return last_key < 0 ? -1 : std::min(last_key / block_kv, kv_tiles - 1);
  }
};
