#pragma once
// There are two loops, because D is a sum over all keys of the row, and every dS needs D. No
// Jacobian is needed. dS_k is the sum over j of dP_j times the derivative of P_j by S_k, which is
// P_k - P_k P_k for j = k, and -P_j P_k for every other j. The factor P_k leaves the sum, so that
// dS_k = P_k (dP_k - D).

#include <vector>

// P is a row of weights, the softmax of its scores, or all 0 if the row sees no key. dP is the
// derivative of some number L by each weight. Returns dS, the derivative of L by each score.
inline std::vector<float> softmax_backward(const std::vector<float>& P,
                                           const std::vector<float>& dP) {
  float D = 0;
  for (size_t j = 0; j < P.size(); ++j) D += P[j] * dP[j];
  std::vector<float> dS;
  for (size_t j = 0; j < P.size(); ++j) dS.push_back(P[j] * (dP[j] - D));
  return dS;
}
