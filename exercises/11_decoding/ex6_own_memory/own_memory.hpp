#pragma once
// The memory of a block that no other block reads or writes.

#include <algorithm>
#include <cstdint>

#include "exercises/11_decoding/grid.hpp"
#include "exercises/support/todo.hpp"

// The keys of a split, 0 to splits - 1, of a sequence of `length` keys: whole tiles of block_kv
// keys, in their order, as many for each split, rounded up. The last splits may have fewer keys. If
// one has none, begin = end = length.
inline Keys keys_of(int split, int splits, int length, int block_kv) {
  exercise::todo("TODO(11.6): the tiles of this split, and its keys");
}

// Where this split writes the LSE of a query, in [splits, batch, heads, len_q].
inline int64_t lse_at(const Grid& grid, int split, int batch, int head, int query) {
  exercise::todo("TODO(11.6): its place among all LSE of all splits");
}

// Where the first number of its O is, in [splits, batch, heads, len_q, dim].
inline int64_t o_at(const Grid& grid, int split, int batch, int head, int query) {
  exercise::todo("TODO(11.6): its place among all O of all splits");
}
