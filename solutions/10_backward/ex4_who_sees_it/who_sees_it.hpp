#pragma once
// Two keys are enough, because the first query that sees a key grows with the key. So the tile's
// first key bounds the queries that are needed, and its last key the queries that are clear. A
// ragged tile is never clear, because it has BLOCK_KV columns, and those past len_kv must be
// hidden.

#include <algorithm>

struct Walk {
  int begin;        // the first tile of queries that sees one of these keys, as all later tiles do
  int clear_begin;  // in this tile and all later ones nothing is masked, or any number <= begin if
                    // nothing ever is
  int count;        // how many tiles of queries the block visits, in all heads that share the keys
};

// For keys [kv_tile * BLOCK_KV, (kv_tile + 1) * BLOCK_KV), which begin below len_kv and may end
// above it. With causal, query i sees key j if j <= i + len_kv - len_q. If it is false, query i
// sees every key. `group` heads of queries share a head of keys. len_q, len_kv, group: at least 1.
template <int BLOCK_Q, int BLOCK_KV>
Walk walk_of(int kv_tile, int len_q, int len_kv, int group, bool causal) {
  const int first = kv_tile * BLOCK_KV, last = first + BLOCK_KV - 1;
  const auto seen_from = [&](int key) { return causal ? std::max(key - (len_kv - len_q), 0) : 0; };
  const int q_tiles = (len_q + BLOCK_Q - 1) / BLOCK_Q;
  const int begin = seen_from(first) / BLOCK_Q;
  const int clear_begin = last < len_kv ? (seen_from(last) + BLOCK_Q - 1) / BLOCK_Q : q_tiles;
  return {begin, clear_begin, (q_tiles - begin) * group};
}
