#pragma once
// Heads of queries that share a head of K and V, as rows of one tile.

#include <algorithm>

#include "exercises/support/todo.hpp"

struct Shape {
  int heads, kv_heads;  // heads is a multiple of kv_heads; a group is heads / kv_heads
  int len_q, len_kv;    // query i sees key j if j <= i + len_kv - len_q
};

// The rows of a block: [first, end) of those that share head kv_head of K and V.
struct Tile {
  int kv_head, first, end;
  int end_key;  // no row of the tile sees this key or a later one, but some row sees each earlier
                // key
};

struct Row {
  int head, query;  // a head of Q and its query
  int end_key;      // it sees keys [0, end_key)
};

// How many blocks there are, with tiles of block_q rows.
inline int blocks_for(const Shape& shape, int block_q) {
  exercise::todo("TODO(11.4): the tiles of a group's rows, for each head of K and V");
}

// Row `row` of those that share kv_head: first all heads of query 0, then all heads of query 1, …
inline Row row_of(const Shape& shape, int kv_head, int row) {
  exercise::todo("TODO(11.4): head, query and keys of a row");
}

// The tile of this block: first all tiles of head 0 of K and V, then all of head 1, …
inline Tile tile_of(const Shape& shape, int block_q, int block) {
  exercise::todo("TODO(11.4): the rows of a block, and how many keys it needs");
}
