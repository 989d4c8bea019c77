#pragma once
// Which keys a query sees.

#include <algorithm>

constexpr int UNLIMITED = 1 << 29;  // of a window's side: farther than any length

// Query i stands at key i + diagonal. It sees the `left` keys back from there, the one where it
// stands and the `right` keys ahead, as far as they exist.
struct Mask {
  int len_kv, diagonal;
  int left, right;

  // The key at which a query stands.
  int position(int query) const { return std::max(query + diagonal, 0); }

  // Query i sees keys [first_key(i), end_key(i)), and none if that is empty.
  int first_key(int query) const { return std::max(position(query) - left, 0); }
  int end_key(int query) const { return std::min(position(query) + right + 1, len_kv); }
};

// left, right: -1 is no limit on that side.
inline Mask mask_of(int len_q, int len_kv, int left, int right) {
  Mask mask;
  mask.len_kv = len_kv;
  mask.diagonal = len_kv - len_q;
  mask.left = left < 0 ? UNLIMITED : left;
  mask.right = right < 0 ? UNLIMITED : right;
  return mask;
}
