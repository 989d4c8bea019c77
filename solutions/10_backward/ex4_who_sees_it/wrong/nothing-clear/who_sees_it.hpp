#pragma once

#include <algorithm>

struct Walk {
  int begin;        // the first tile of queries that sees one of these keys; from it on all do
  int clear_begin;  // from this tile on nothing is masked; any number <= begin if nothing ever is
  int count;        // how many tiles of queries the block visits, in all heads that share the keys
};

// Of keys [kv_tile * BLOCK_KV, (kv_tile + 1) * BLOCK_KV), which begin below len_kv and may end
// above it. causal: query i sees key j if j <= i + len_kv - len_q. Not causal: every key.
// `group` heads of queries share a head of keys. len_q, len_kv, group: at least 1.
template <int BLOCK_Q, int BLOCK_KV>
Walk walk_of(int kv_tile, int len_q, int len_kv, int group, bool causal) {
  const int first = kv_tile * BLOCK_KV;
  const auto seen_from = [&](int key) { return causal ? std::max(key - (len_kv - len_q), 0) : 0; };
  const int q_tiles = (len_q + BLOCK_Q - 1) / BLOCK_Q;
  const int begin = seen_from(first) / BLOCK_Q;
  const int clear_begin = q_tiles;
  return {begin, clear_begin, (q_tiles - begin) * group};
}
