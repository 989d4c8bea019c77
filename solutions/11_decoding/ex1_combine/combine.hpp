#pragma once
// The largest LSE is subtracted, so that its part has weight 1 and every other part at most 1. So
// nothing overflows, and the sum of the weights is at least 1. The sum tells whether there was a
// key, and not the largest LSE, because the maximum drops a NaN, and the sum keeps it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// The result of a query over some of the keys. Without a key LSE is -inf, and O is undefined.
struct Part {
  std::vector<float> O;  // [dim], the sum of e^s v, divided by the sum of e^s
  float LSE;             // natural logarithm of the sum of e^s
};

// The same for all keys together, of which each is in one part. If there is no key in any of them,
// O is 0 and LSE is -inf.
inline Part combine_parts(const std::vector<Part>& parts, int dim) {
  float largest = NEG_INF, sum = 0;
  for (const Part& part : parts) largest = std::max(largest, part.LSE);
  Part all{std::vector<float>(dim), NEG_INF};
  for (const Part& part : parts) {
    if (part.LSE == NEG_INF) continue;  // its O may be NaN, and so may 0 times it
    const float weight = std::exp(part.LSE - largest);
    sum += weight;
    for (int d = 0; d < dim; ++d) all.O[d] += weight * part.O[d];
  }
  if (sum == 0) return all;
  for (float& o : all.O) o /= sum;
  all.LSE = largest + std::log(sum);
  return all;
}
