#pragma once
// One P and one dS are enough for a pair (i, j), because row i of dQ and rows j of dK and dV are
// sums over such pairs. A hidden pair is left out before the exponential, because LSE does not
// include hidden keys, and may be -inf.

#include <cmath>

#include "exercises/10_backward/pair.hpp"

// P  = e^(scale S - LSE), 0 where the key is hidden    [queries, keys]
// dS = P o (dP - D)
// dV += P.T @ dO,   dQ += scale dS @ K,   dK += scale dS.T @ Q
inline void add_pair(const Pair& t, Gradients& sum) {
  for (int i = 0; i < t.queries; ++i) {
    for (int j = 0; j < t.keys; ++j) {
      const float p = t.sees(i, j) ? std::exp(t.scale * t.S(i, j) - t.LSE[i]) : 0;
      const float ds = p * (t.dP(i, j) - t.D[i]);
      for (int d = 0; d < t.dim; ++d) {
        sum.dV(j, d) += p * t.dO(i, d);
        sum.dQ(i, d) += t.scale * ds * t.K(j, d);
        sum.dK(j, d) += t.scale * ds * t.Q(i, d);
      }
    }
  }
}
