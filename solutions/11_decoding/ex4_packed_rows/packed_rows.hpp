#pragma once
// The last row tells which keys a tile needs, because its query is the latest of the tile, and a
// later query sees more keys. The end of a tile is clipped first. Otherwise the last row would
// belong to a query that does not exist, and the tile would load keys that no query sees.

#include <algorithm>

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

inline int group_of(const Shape& shape) { return shape.heads / shape.kv_heads; }

inline int tiles_of(const Shape& shape, int block_q) {
  return (group_of(shape) * shape.len_q + block_q - 1) / block_q;
}

// How many blocks there are, with tiles of block_q rows.
inline int blocks_for(const Shape& shape, int block_q) {
  return tiles_of(shape, block_q) * shape.kv_heads;
}

// Row `row` of those that share kv_head: first all heads of query 0, then all heads of query 1, …
inline Row row_of(const Shape& shape, int kv_head, int row) {
  const int group = group_of(shape), query = row / group;
  return {kv_head * group + row % group, query,
          std::max(query + shape.len_kv - shape.len_q + 1, 0)};
}

// The tile of this block: first all tiles of head 0 of K and V, then all of head 1, …
inline Tile tile_of(const Shape& shape, int block_q, int block) {
  const int tiles = tiles_of(shape, block_q), kv_head = block / tiles;
  const int first = block % tiles * block_q;
  const int end = std::min(first + block_q, group_of(shape) * shape.len_q);
  return {kv_head, first, end, row_of(shape, kv_head, end - 1).end_key};
}
