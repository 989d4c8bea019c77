#pragma once
// Several sequences in one tensor: what a block has to do with.

#include <algorithm>

// Sequence n is rows starts[n] to starts[n + 1] - 1, for n from 0 to sequences - 1.
struct Packed {
  const int *q_starts, *kv_starts;
  int sequences;
};

struct Block {
  int q_start, kv_start;        // the sequence's first row in Q, and in K and V
  int len_q, len_kv, diagonal;  // of the sequence
  int first_row, end_row;       // this block's queries, counted in the sequence
  int kv_tiles;                 // tiles of BLOCK_KV keys that the sequence has
};

// How many tiles of block_q queries the longest sequence has. (There is one that is not empty.)
inline int tiles_of_longest(const Packed& packed, int block_q) {
  int tiles = 0;
  for (int n = 0; n < packed.sequences; ++n) {
    const int rows = packed.q_starts[n + 1] - packed.q_starts[n];
    tiles = std::max(tiles, (rows + block_q - 1) / block_q);
  }
  return tiles;
}

// Tile q_tile of the queries of a sequence. end_row <= first_row: there is nothing to do.
inline Block block_of(const Packed& packed, int block_q, int block_kv, int q_tile, int sequence) {
  const int* q = packed.q_starts + sequence;
  const int* kv = packed.kv_starts + sequence;
  Block block;
  block.q_start = q[0];
  block.kv_start = kv[0];
  block.len_q = q[1] - q[0];
  block.len_kv = kv[1] - kv[0];
  block.diagonal = block.len_kv - block.len_q;
  block.first_row = q_tile * block_q;
  block.end_row = std::min(block.first_row + block_q, block.len_q);
  block.kv_tiles =
      (kv[1] + block_kv - 1) / block_kv - kv[0] / block_kv;  // from its first to its last
  return block;
}
