#pragma once
// The choice at the first wrong token counts, because it follows right tokens only. So a pass never
// gains less than greedy decoding does.

#include <cstddef>
#include <vector>

// Returns the tokens to append. choices[0] follows the text so far, and choices[i + 1] follows
// draft[i], so choices has one token more than draft.
inline std::vector<int> accept(const std::vector<int>& draft, const std::vector<int>& choices) {
  size_t n = 0;
  while (n < draft.size() && draft[n] == choices[n]) ++n;
  return std::vector<int>(choices.begin(), choices.begin() + n + 1);
}
