#pragma once
// A tree of new tokens: a draft model guesses several continuations, which share their first
// tokens.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/kernels/decode.hpp"

namespace ch11 {

// [anchor: tree_words]
// Returns a word for each new token. Bit j says whether the token sees new token j, which is itself
// or an ancestor. A parent comes before its children, and -1 means none. Throws InputError for more
// than 64 tokens, and for a parent that is not an earlier token.
inline std::vector<uint64_t> tree_words(std::span<const int64_t> parents) {
  const auto count = std::ssize(parents);
  if (count > fa::kMostTreeTokens)
    throw fa::InputError("a tree of " + std::to_string(count) + " tokens: expected at most 64");
  std::vector<uint64_t> words(count);
  for (int64_t token = 0; token < count; ++token) {
    const int64_t parent = parents[token];
    if (parent < -1 || parent >= token) {
      throw fa::InputError("a tree in which token " + std::to_string(token) + " has parent " +
                           std::to_string(parent) + ": expected an earlier token, or -1 for none");
    }
    words[token] = (parent < 0 ? 0 : words[parent]) | uint64_t{1} << token;
  }
  return words;
}
// [/anchor: tree_words]

}  // namespace ch11
