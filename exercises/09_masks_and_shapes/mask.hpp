#pragma once
// The mask of 09.1, for 09.2.

struct Mask {
  int len_kv, diagonal;
  int left, right;

  // Query i sees keys [first_key(i), end_key(i)), and none if that is empty. Both grow with i.
  // A first key is never below 0, an end never above len_kv, but it may be negative.
  int first_key(int query) const;
  int end_key(int query) const;
};
