#pragma once
// It is enough to compare two numbers, because a chunk is wholly before another, or the same, or
// after it. The early keys are chunk `owner`, the late keys are chunk 2P - 1 - owner. So the
// comparison is the rule by steps. Up to step `rank` all queries see the early keys, and later the
// late queries see all keys.

#include <cstdint>

#include "chapters/19_ring_attention/partition.hpp"

enum Half { EARLY, LATE };
enum Quarter { NOTHING, TRIANGLE, ALL };

// Returns which of the 2 * ranks chunks of the sequence is the early or the late one of a rank.
inline int chunk_of(int rank, Half half, int ranks) {
  return half == EARLY ? rank : 2 * ranks - 1 - rank;
}

// The part that a rank computes at a step for one half of its queries and one half of the keys that
// it holds then, which are those of rank `rank - step`, round the ring.
inline Quarter quarter_at(int rank, int step, int ranks, Half queries, Half keys) {
  const int owner = (rank + ranks - step) % ranks;
  const int q_chunk = chunk_of(rank, queries, ranks), k_chunk = chunk_of(owner, keys, ranks);
  if (q_chunk == k_chunk) return TRIANGLE;
  return q_chunk > k_chunk ? ALL : NOTHING;
}

// Returns how many (query, key) pairs of a sequence of `length` positions a rank computes at a
// step.
inline int64_t pairs_at(int64_t length, int rank, int step, int ranks) {
  const int owner = (rank + ranks - step) % ranks;
  const auto size = [&](int of, Half half) {
    return ch19::piece(length, 2 * ranks, chunk_of(of, half, ranks)).size();
  };
  int64_t pairs = 0;
  for (const Half queries : {EARLY, LATE})
    for (const Half keys : {EARLY, LATE}) {
      const Quarter quarter = quarter_at(rank, step, ranks, queries, keys);
      const int64_t n_q = size(rank, queries), n_k = size(owner, keys);
      if (quarter == ALL) pairs += n_q * n_k;
      if (quarter == TRIANGLE) pairs += n_q * (n_q + 1) / 2;
    }
  return pairs;
}
