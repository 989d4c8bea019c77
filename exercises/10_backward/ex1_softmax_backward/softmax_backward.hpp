#pragma once
// The backward pass of softmax, for one row.

#include <vector>

#include "exercises/support/todo.hpp"

// P is a row of weights, the softmax of its scores, or all 0 if the row sees no key. dP is the
// derivative of some number L by each weight. Returns dS, the derivative of L by each score.
inline std::vector<float> softmax_backward(const std::vector<float>& P,
                                           const std::vector<float>& dP) {
  exercise::todo("TODO(10.1): dS from P and dP, without the Jacobian");
}
