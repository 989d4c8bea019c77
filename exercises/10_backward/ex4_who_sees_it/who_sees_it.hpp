#pragma once
// Which tiles of queries a tile of keys visits in the backward pass.

#include <algorithm>

#include "exercises/support/todo.hpp"

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
  exercise::todo("TODO(10.4): which tiles of queries see this tile of keys, and which are masked");
}
