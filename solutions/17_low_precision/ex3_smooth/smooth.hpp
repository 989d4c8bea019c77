#pragma once
// Every score of the row has lost scale * q . mean. Because e^(s - c) = e^s / e^c, the log of the
// sum of their exponentials has lost the same amount.

#include <cmath>
#include <vector>

// K [keys, dim], row after row, loses the mean of its keys, in place. Returns that mean, [dim].
inline std::vector<float> smooth(std::vector<float>& K, int dim) {
  std::vector<float> mean(dim);
  const size_t keys = K.size() / dim;
  for (size_t i = 0; i < K.size(); ++i) mean[i % dim] += K[i] / static_cast<float>(keys);
  for (size_t i = 0; i < K.size(); ++i) K[i] -= mean[i % dim];
  return mean;
}

// lse is the log-sum-exp of a query's scores with the smoothed keys. Returns the log-sum-exp of the
// scores with the original K. A score is scale * q . k.
inline float corrected(float lse, const std::vector<float>& q, const std::vector<float>& mean,
                       float scale) {
  for (size_t d = 0; d < q.size(); ++d) lse += scale * q[d] * mean[d];
  return lse;
}
