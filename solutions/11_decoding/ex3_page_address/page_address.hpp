#pragma once
// The code compares with the length, and does not ask whether the page exists, because the last
// page is full only up to the length. A page is an int64_t, because a product of ints is an int,
// and 2^31 numbers are 4 GiB of K, a small cache.

#include <cstdint>

#include "exercises/11_decoding/cache.hpp"

constexpr int64_t NOWHERE = -1;

// Returns the index of the first element of K for key `key` of this sequence, in this head of K and
// V, counted in elements from the beginning of K, which may have more than 2^31. NOWHERE for a key
// at or past the sequence's length, for which nothing is looked up. 0 <= key.
inline int64_t address_of(const Cache& cache, PageTable& table, int sequence, int kv_head,
                          int key) {
  if (key >= cache.lengths[sequence]) return NOWHERE;
  const int row = key % cache.page_size, column = key / cache.page_size;
  const int64_t page = table.look_up(int64_t{sequence} * table.columns() + column);
  return ((page * cache.kv_heads + kv_head) * cache.page_size + row) * cache.dim;
}
