#pragma once
// Which keys a query sees, and which tiles of keys a tile of queries needs.

#include "common/backend.hpp"

namespace FA_BACKEND::ch09 {

constexpr int UNLIMITED = 1 << 29;  // of a window's side: farther than any length

// [anchor: mask]
// The last query stands at the last key: query i at key i + len_kv - len_q. It sees the `left` keys
// before that one, and the `right` ones behind it. Causal: nothing behind, everything before.
struct Mask {
  int len_q, len_kv;
  int left, right;

  // Query i sees keys [first_key(i), end_key(i)), and none if that is empty. Both grow with i.
  FA_DEVICE int first_key(int query) const {
    const int first = query + len_kv - len_q - left;
    return first > 0 ? first : 0;
  }
  FA_DEVICE int end_key(int query) const {
    const int end = query + len_kv - len_q + right + 1;
    return end < len_kv ? end : len_kv;
  }
};
// [/anchor: mask]

// [anchor: tiles]
// The tiles of BLOCK_KV keys that queries [first, last] need. In a clear tile each of them sees
// each key: there is nothing to mask. The others lie at the two edges of what is seen; they are
// visited last, and the clear ones in a loop that knows no mask. The order is free: the state (m,
// l, o) merges in any.
template <int BLOCK_KV>
struct Tiles {
  int begin, end;  // needed: every key that one of the queries sees lies in these
  int clear_begin, clear_end;

  FA_DEVICE Tiles(const Mask& mask, int first, int last)
      : begin(mask.first_key(first) / BLOCK_KV),
        end((mask.end_key(last) + BLOCK_KV - 1) / BLOCK_KV),
        clear_begin((mask.first_key(last) + BLOCK_KV - 1) / BLOCK_KV),
        clear_end(mask.end_key(first) / BLOCK_KV) {
    if (clear_end <= clear_begin) clear_begin = clear_end = begin;
  }
  FA_DEVICE int count() const { return end - begin; }  // not positive: nobody sees anything
  FA_DEVICE int clear_count() const { return clear_end - clear_begin; }
  // The n-th to visit: from the first clear tile to the last tile, then those before.
  FA_DEVICE int visit(int n) const {
    const int tile = clear_begin + n;
    return tile < end ? tile : tile - count();
  }
};
// [/anchor: tiles]

}  // namespace FA_BACKEND::ch09
