#pragma once

#include <vector>

// P: a row of weights, the softmax of its scores; all 0 if the row sees no key.
// dP: the derivative of some number L by each of them.
// Returns dS, the derivative of L by each score.
inline std::vector<float> softmax_backward(const std::vector<float>& P,
                                           const std::vector<float>& dP) {
  const size_t n = P.size();
  std::vector<std::vector<float>> J(n, std::vector<float>(n));
  for (size_t j = 0; j < n; ++j)
    for (size_t k = 0; k < n; ++k) J[j][k] = j == k ? P[j] * (1 - P[j]) : -P[j] * P[k];
  std::vector<float> dS(n);
  for (size_t j = 0; j < n; ++j)
    for (size_t k = 0; k < n; ++k) dS[k] += dP[j] * J[j][k];
  return dS;
}
