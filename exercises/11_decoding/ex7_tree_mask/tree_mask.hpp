#pragma once
// What the new tokens of a sequence see, if they are a tree of guesses.

#include <cstdint>
#include <vector>

#include "exercises/support/todo.hpp"

// A word for each new token. Bit j says whether it sees new token j, which is itself or one of its
// ancestors. parents[i] < i, or -1 if token i has no parent. There are at most 64 tokens.
inline std::vector<uint64_t> tree_words(const std::vector<int>& parents) {
  exercise::todo("TODO(11.7): the word of each new token");
}

// True if new token `token` sees key `key` of its sequence. The sequence has `len_kv` keys, and the
// last of them are those of the new tokens. There is one word for each new token.
inline bool sees(const std::vector<uint64_t>& words, int len_kv, int token, int key) {
  exercise::todo("TODO(11.7): the cache, and the bits of a word");
}
