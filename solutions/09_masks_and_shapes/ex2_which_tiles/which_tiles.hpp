#pragma once
// Two queries are enough, because both limits grow with the query. So the first and the last query
// of a tile bound the keys that any of its queries sees, and the keys that all of them see.
// `needed` is rounded outwards, because a tile with one visible key is needed. `clear` is rounded
// inwards, because a tile with one hidden key must be masked.

#include <algorithm>

#include "exercises/09_masks_and_shapes/mask.hpp"

struct Tiles {
  int begin, end;              // tiles with every key that any of the queries sees
  int clear_begin, clear_end;  // tiles in which all of the queries see all keys
};

// For queries [q_tile * BLOCK_Q, (q_tile + 1) * BLOCK_Q), as far as they exist, because there are
// only len_q queries. q_tile * BLOCK_Q is below len_q.
template <int BLOCK_Q, int BLOCK_KV>
Tiles tiles_of(const Mask& mask, int len_q, int q_tile) {
  const int first = q_tile * BLOCK_Q, last = std::min(first + BLOCK_Q, len_q) - 1;
  const auto down = [](int key) { return key / BLOCK_KV; };
  const auto up = [](int key) { return (key + BLOCK_KV - 1) / BLOCK_KV; };
  return {down(mask.first_key(first)), up(mask.end_key(last)), up(mask.first_key(last)),
          down(mask.end_key(first))};
}
