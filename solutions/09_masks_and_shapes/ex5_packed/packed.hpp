#pragma once
// Rows are counted within their sequence, so that the mask, the tiles and the tail are the same as
// for a single sequence, and only the two starts depend on the other sequences. The longest
// sequence sets the size of the grid. A grid is a box, so the surplus blocks of shorter sequences
// find an empty tile and return.

#include <algorithm>

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
  int longest = 0;
  for (int n = 0; n < packed.sequences; ++n)
    longest = std::max(longest, packed.q_starts[n + 1] - packed.q_starts[n]);
  return (longest + block_q - 1) / block_q;
}

// Returns tile q_tile of the queries of a sequence. It is empty if end_row <= first_row.
inline Block block_of(const Packed& packed, int block_q, int block_kv, int q_tile, int sequence) {
  const int q_start = packed.q_starts[sequence], kv_start = packed.kv_starts[sequence];
  const int len_q = packed.q_starts[sequence + 1] - q_start;
  const int len_kv = packed.kv_starts[sequence + 1] - kv_start;
  const int first_row = q_tile * block_q;
  return {.q_start = q_start,
          .kv_start = kv_start,
          .len_q = len_q,
          .len_kv = len_kv,
          .diagonal = len_kv - len_q,
          .first_row = first_row,
          .end_row = std::min(first_row + block_q, len_q),
          .kv_tiles = (len_kv + block_kv - 1) / block_kv};
}
