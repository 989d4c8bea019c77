#pragma once
// Several sequences in one tensor, with the rows and tiles of a block.

#include <algorithm>

#include "exercises/support/todo.hpp"

// Sequence n is rows starts[n] to starts[n + 1] - 1, for n from 0 to sequences - 1.
struct Packed {
  const int *q_starts, *kv_starts;
  int sequences;
};

struct Block {
  int q_start, kv_start;        // the sequence's first row in Q, and in K and V
  int len_q, len_kv, diagonal;  // rows of the sequence
  int first_row, end_row;       // this block's queries, counted in the sequence
  int kv_tiles;                 // tiles of BLOCK_KV keys that the sequence has
};

// Returns how many tiles of block_q queries the longest sequence has. At least one is not empty.
inline int tiles_of_longest(const Packed& packed, int block_q) {
  exercise::todo("TODO(09.5): the tiles of the longest sequence");
}

// Returns tile q_tile of the queries of a sequence. It is empty if end_row <= first_row.
inline Block block_of(const Packed& packed, int block_q, int block_kv, int q_tile, int sequence) {
  exercise::todo("TODO(09.5): eight numbers, from two starts of Q and two of K and V");
}
