#pragma once
// From a key to its row in a cache of pages.

#include <cstdint>

#include "exercises/support/todo.hpp"

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
  exercise::todo("TODO(11.3): the place of a key's row in the cache");
}
