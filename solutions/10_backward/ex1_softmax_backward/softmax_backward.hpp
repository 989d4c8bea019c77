#pragma once
// Why two loops: D has every key of the row in it, and every dS has D. Why no Jacobian: dP_j
// dP_j/dS_k is P_k dP_k on the diagonal, minus P_k P_j dP_j for each j, and P_k leaves that sum.

#include <vector>

// P: a row of weights, the softmax of its scores; all 0 if the row sees no key.
// dP: the derivative of some number L by each of them.
// Returns dS, the derivative of L by each score.
inline std::vector<float> softmax_backward(const std::vector<float>& P,
                                           const std::vector<float>& dP) {
  float D = 0;
  for (size_t j = 0; j < P.size(); ++j) D += P[j] * dP[j];
  std::vector<float> dS;
  for (size_t j = 0; j < P.size(); ++j) dS.push_back(P[j] * (dP[j] - D));
  return dS;
}
