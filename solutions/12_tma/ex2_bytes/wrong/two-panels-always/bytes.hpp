#pragma once

#include <algorithm>

struct Tiles {
  int block_q, block_kv;
  int head_dim;
  int len_q, len_kv;
  int threads;
};
inline int q_bytes(const Tiles& tiles, int q_tile) { return tiles.block_q * 256; }
inline int k_bytes(const Tiles& tiles, int kv_tile) { return tiles.block_kv * 256; }
inline int kv_bytes(const Tiles& tiles, int kv_tile) { return 2 * (tiles.block_kv * 256); }
