#pragma once
// The length does not matter, because the engine writes the whole box, including zeros past the
// end, and counts all bytes that it writes. So the number is the same for each tile. The panels do
// not matter either, because 64 * (head_dim / 64) columns are head_dim columns.

struct Tiles {
  int block_q, block_kv;  // rows of a box of Q, and rows (keys) of a box of K or V
  int head_dim;           // columns of Q, K and V, in bf16: 64, one panel, or 128, two
  int len_q, len_kv;      // rows that a head has. The last tile may extend past them.
  int threads;  // threads of the block. One of them expects the bytes and issues the copies.
};

// A tile comes by one copy of a box {64, rows, head_dim / 64, 1}, which has all panels of its rows.
// Returns the bytes that the thread passes to mbarrier_arrive_expect_tx if the mbarrier counts, in
// this phase,

// … tile q_tile of Q.
inline int q_bytes(const Tiles& tiles, int q_tile) { return tiles.block_q * tiles.head_dim * 2; }

// … tile kv_tile of K.
inline int k_bytes(const Tiles& tiles, int kv_tile) { return tiles.block_kv * tiles.head_dim * 2; }

// … tiles kv_tile of K and of V, which are two copies.
inline int kv_bytes(const Tiles& tiles, int kv_tile) { return 2 * k_bytes(tiles, kv_tile); }
