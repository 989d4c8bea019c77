#pragma once
// Tiles are divided and not keys, because two splits that share a tile would both load it. begin is
// clipped too, because otherwise a split past the end would have end < begin.

#include <algorithm>
#include <cstdint>

#include "exercises/11_decoding/grid.hpp"

// The keys of a split, 0 to splits - 1, of a sequence of `length` keys: whole tiles of block_kv
// keys, in their order, as many for each split, rounded up. The last splits may have fewer keys. If
// one has none, begin = end = length.
inline Keys keys_of(int split, int splits, int length, int block_kv) {
  const int tiles = (length + block_kv - 1) / block_kv;
  const int each = (tiles + splits - 1) / splits * block_kv;
  const int begin = std::min(split * each, length);
  return {begin, std::min(begin + each, length)};
}

// Where this split writes the LSE of a query, in [splits, batch, heads, len_q].
inline int64_t lse_at(const Grid& grid, int split, int batch, int head, int query) {
  return ((int64_t{split} * grid.batch + batch) * grid.heads + head) * grid.len_q + query;
}

// Where the first number of its O is, in [splits, batch, heads, len_q, dim].
inline int64_t o_at(const Grid& grid, int split, int batch, int head, int query) {
  return lse_at(grid, split, batch, head, query) * grid.dim;
}
