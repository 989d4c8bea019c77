#pragma once
// The diagonal ends at the last key, because the last query is the newest token. Its position is
// that of the last key, however many keys a cache already holds. "No limit" is a number, so that
// causal, windowed and unmasked attention are one mask without a branch. The limits are clamped,
// because tiles are found by division, and -3 / 4 is 0 in C++.

#include <algorithm>

constexpr int UNLIMITED =
    1 << 29;  // number of keys on a side without a limit, more than any length

// Query i is aligned with key i + diagonal. It sees the `left` keys before that one, the one
// itself and the `right` ones after it, as far as they exist.
struct Mask {
  int len_kv, diagonal;
  int left, right;

  // Query i sees keys [first_key(i), end_key(i)), and none if that is empty.
  int first_key(int query) const { return std::max(query + diagonal - left, 0); }
  int end_key(int query) const { return std::min(query + diagonal + right + 1, len_kv); }
};

// left, right: -1 means that there is no limit on that side.
inline Mask mask_of(int len_q, int len_kv, int left, int right) {
  const auto side = [](int keys) { return keys < 0 ? UNLIMITED : keys; };
  return {len_kv, len_kv - len_q, side(left), side(right)};
}
