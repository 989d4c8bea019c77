#pragma once

#include <cstdint>

constexpr int64_t NOWHERE = -1;

struct Cache {
  int kv_heads, page_size, dim;
  const int* table;  // [sequences, columns]
  int columns;
};

// Where the row of `key` of a sequence begins, in numbers from the beginning of the cache, which is
// [pages, kv_heads, page_size, dim]. NOWHERE if the sequence has no such key; the table must not be
// looked at then. table: [sequences, columns], the pages of each sequence in order.
inline int64_t row_of_key(const Cache& cache, int sequence, int length, int kv_head, int key) {
  if (key >= length) return NOWHERE;  // before the table: behind the pages it holds anything
  const int64_t page = cache.table[sequence * cache.columns + key / cache.page_size];
  const int64_t row = key % cache.page_size;
  return ((page * cache.kv_heads + kv_head) * cache.page_size + row) * cache.dim;
}
