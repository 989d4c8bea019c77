#pragma once
// The place of a key in a cache of pages.

#include <cstdint>

#include "exercises/11_decoding/cache.hpp"
#include "exercises/support/todo.hpp"

constexpr int64_t NOWHERE = -1;

// Returns the index of the first element of K for key `key` of this sequence, in this head of K and
// V, counted in elements from the beginning of K, which may have more than 2^31. NOWHERE for a key
// at or past the sequence's length, for which nothing is looked up. 0 <= key.
inline int64_t address_of(const Cache& cache, PageTable& table, int sequence, int kv_head,
                          int key) {
  exercise::todo("TODO(11.3): look up the page once, if the key exists, and count from there");
}
