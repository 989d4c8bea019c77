#pragma once

#include <cmath>
#include <limits>

constexpr float INFINITE = std::numeric_limits<float>::infinity();

// One row of O from the results of its splits. O_splits: [splits, dim], LSE_splits: [splits]. A
// split without a key has O 0 and LSE -inf. Writes O [dim] and returns LSE, of all keys of all
// splits: 0 and -inf if there is none.
inline float combine(int splits, int dim, const float* O_splits, const float* LSE_splits,
                     float* O) {
  float m = -INFINITE, l = 0;
  for (int s = 0; s < splits; ++s) m = std::fmax(m, LSE_splits[s]);
  for (int d = 0; d < dim; ++d) O[d] = 0;
  for (int s = 0; s < splits; ++s) {
    const float w = std::exp(LSE_splits[s] - m);  // at most 1
    l += w;
    for (int d = 0; d < dim; ++d) O[d] += w * O_splits[s * dim + d];
  }
  for (int d = 0; d < dim; ++d) O[d] /= l;
  return m + std::log(l);
}
