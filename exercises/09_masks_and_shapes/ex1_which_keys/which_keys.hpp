#pragma once
// Which keys a query sees.

#include <algorithm>

#include "exercises/support/todo.hpp"

constexpr int UNLIMITED =
    1 << 29;  // number of keys on a side without a limit, more than any length

// Query i is aligned with key i + diagonal. It sees this key, `left` keys before it and `right`
// keys after it, as far as they exist.
struct Mask {
  int len_kv, diagonal;
  int left, right;

  // Query i sees keys [first_key(i), end_key(i)), and none if that is empty.
  int first_key(int query) const {
    exercise::todo("TODO(09.1): the first key that query sees, the end of those, and the mask");
  }
  int end_key(int query) const {
    exercise::todo("TODO(09.1): the first key that query sees, the end of those, and the mask");
  }
};

// left, right: -1 means that there is no limit on that side.
inline Mask mask_of(int len_q, int len_kv, int left, int right) {
  exercise::todo("TODO(09.1): the first key that query sees, the end of those, and the mask");
}
