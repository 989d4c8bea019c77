#pragma once

#include <cmath>
#include <vector>

// K [keys, dim], row after row, loses the mean of its keys, in place. Returns that mean, [dim].
inline std::vector<float> smooth(std::vector<float>& K, int dim) {
  std::vector<float> mean(dim);
  for (size_t i = 0; i < K.size(); ++i)
    mean[i % dim] += K[i] * static_cast<float>(dim) / static_cast<float>(K.size());
  for (size_t key = 0; key < K.size() / dim; ++key) {
    float own = 0;
    for (int d = 0; d < dim; ++d) own += K[key * dim + d] / static_cast<float>(dim);
    for (int d = 0; d < dim; ++d) K[key * dim + d] -= own;
  }
  return mean;
}

// lse: log-sum-exp of a query's scores with the smoothed keys. Returns that of the scores with K as
// it was; the scores are scale * q . k.
inline float corrected(float lse, const std::vector<float>& q, const std::vector<float>& mean,
                       float scale) {
  for (size_t d = 0; d < q.size(); ++d) lse += scale * q[d] * mean[d];
  return lse;
}
