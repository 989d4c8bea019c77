#pragma once
// Which tiles of keys a tile of queries needs, and which of them need no mask.

#include <algorithm>

#include "exercises/09_masks_and_shapes/mask.hpp"

struct Tiles {
  int begin, end;              // needed: every key that one of the queries sees lies in these
  int clear_begin, clear_end;  // in each of these each of the queries sees each key
};

// Of queries [q_tile * BLOCK_Q, (q_tile + 1) * BLOCK_Q), as far as there are any: len_q in all.
// q_tile * BLOCK_Q is below len_q.
template <int BLOCK_Q, int BLOCK_KV>
Tiles tiles_of(const Mask& mask, [[maybe_unused]] int len_q, int q_tile) {
  const int first = q_tile * BLOCK_Q;
  const int last = std::min(first + BLOCK_Q - 1, mask.len_kv - 1);
  const int begin = mask.first_key(first) / BLOCK_KV;
  const int end = (mask.end_key(last) + BLOCK_KV - 1) / BLOCK_KV;
  const int clear_begin = (mask.first_key(last) + BLOCK_KV - 1) / BLOCK_KV;
  const int clear_end = mask.end_key(first) / BLOCK_KV;
  return {begin, end, clear_begin, clear_end};
}
