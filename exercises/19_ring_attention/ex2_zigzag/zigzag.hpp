#pragma once
// Causal attention, divided so that all ranks have the same amount of work.

#include <cstdint>

#include "chapters/19_ring_attention/partition.hpp"
#include "exercises/support/todo.hpp"

enum Half { EARLY, LATE };
enum Quarter { NOTHING, TRIANGLE, ALL };

// Returns which of the 2 * ranks chunks of the sequence is the early or the late one of a rank.
inline int chunk_of(int rank, Half half, int ranks) {
  exercise::todo("TODO(19.2): the two chunks of a rank");
}

// The part that a rank computes at a step for one half of its queries and one half of the keys that
// it holds then, which are those of rank `rank - step`, round the ring.
inline Quarter quarter_at(int rank, int step, int ranks, Half queries, Half keys) {
  exercise::todo("TODO(19.2): all, a triangle, or nothing");
}

// Returns how many (query, key) pairs of a sequence of `length` positions a rank computes at a
// step.
inline int64_t pairs_at(int64_t length, int rank, int step, int ranks) {
  exercise::todo("TODO(19.2): the pairs of the four quarters");
}
