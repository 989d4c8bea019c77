#pragma once
// In speculative decoding, which tokens of a pass greedy decoding would have chosen.

#include <cstddef>
#include <vector>

#include "exercises/support/todo.hpp"

// Returns the tokens to append. choices[0] follows the text so far, and choices[i + 1] follows
// draft[i], so choices has one token more than draft.
inline std::vector<int> accept(const std::vector<int>& draft, const std::vector<int>& choices) {
  exercise::todo("TODO(24.3): return the choices whose inputs greedy decoding would have had");
}
