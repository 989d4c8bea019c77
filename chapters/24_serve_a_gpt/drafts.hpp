#pragma once
// Speculative decoding (Leviathan, Kalman and Matias 2023) with prompt lookup, where a draft
// repeats the tokens that followed the same few tokens earlier in the text. The model checks it in
// one pass.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace fa::ch24 {

// [anchor: lookup]
// Returns up to `count` tokens that followed the last occurrence of the final 3 tokens, or of the
// final 2 or 1 if there is none. Empty if the last token is new.
inline std::vector<int32_t> lookup_draft(std::span<const int32_t> tokens, int64_t count) {
  for (int64_t n = 3; n > 0 && count > 0; --n) {
    for (int64_t end = std::ssize(tokens) - 1; end >= n; --end) {
      if (!std::equal(tokens.end() - n, tokens.end(), tokens.begin() + end - n)) continue;
      const int64_t length = std::min(count, std::ssize(tokens) - end);
      return {tokens.begin() + end, tokens.begin() + end + length};
    }
  }
  return {};
}
// [/anchor: lookup]

// [anchor: accept]
// The model's choices [draft + 1], where choices[i] follows the tokens up to draft[i - 1]. A choice
// is valid if all tokens of the draft before it were chosen, so that greedy decoding would have the
// same input. Returns the valid choices, at least one.
inline std::vector<int32_t> accept(std::span<const int32_t> draft,
                                   std::span<const int32_t> choices) {
  size_t accepted = 0;
  while (accepted < draft.size() && draft[accepted] == choices[accepted]) ++accepted;
  return {choices.begin(), choices.begin() + accepted + 1};
}
// [/anchor: accept]

}  // namespace fa::ch24
