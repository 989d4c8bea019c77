#pragma once
// How many bytes an mbarrier is told to expect.

#include "exercises/support/todo.hpp"

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
inline int q_bytes(const Tiles& tiles, int q_tile) {
  exercise::todo("TODO(12.2): the bytes of three mbarriers");
}

// … tile kv_tile of K.
inline int k_bytes(const Tiles& tiles, int kv_tile) {
  exercise::todo("TODO(12.2): the bytes of three mbarriers");
}

// … tiles kv_tile of K and of V, which are two copies.
inline int kv_bytes(const Tiles& tiles, int kv_tile) {
  exercise::todo("TODO(12.2): the bytes of three mbarriers");
}
