#pragma once
// A parent comes before its children, so its word is complete when a child copies it. The child
// needs one more bit, and no walk to the root. The bit is shifted as a 64-bit number, because an
// int has no bit 32.

#include <cstdint>
#include <vector>

// A word for each new token. Bit j says whether it sees new token j, which is itself or one of its
// ancestors. parents[i] < i, or -1 if token i has no parent. There are at most 64 tokens.
inline std::vector<uint64_t> tree_words(const std::vector<int>& parents) {
  std::vector<uint64_t> words(parents.size());
  for (int i = 0; i < static_cast<int>(parents.size()); ++i) {
    const uint64_t above = parents[i] < 0 ? 0 : words[parents[i]];
    words[i] = above | uint64_t{1} << i;
  }
  return words;
}

// True if new token `token` sees key `key` of its sequence. The sequence has `len_kv` keys, and the
// last of them are those of the new tokens. There is one word for each new token.
inline bool sees(const std::vector<uint64_t>& words, int len_kv, int token, int key) {
  const int bit = key - (len_kv - static_cast<int>(words.size()));  // the key's new token
  return bit < 0 || (words[token] >> bit & 1) != 0;
}
