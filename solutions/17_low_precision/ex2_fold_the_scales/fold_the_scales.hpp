#pragma once
// One factor for each group of keys combines all scales. m is a score and not an integer, because
// two keys with the same integer may have different scores.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

// S has integers, q . k of a query with each key. The query's numbers have to be multiplied by
// q_scale, those of keys 0 and 1, 8 and 9, 16 and 17, … by k_scales[0], of keys 2 and 3, 10 and 11,
// … by k_scales[1], and so on, four of them. Score s_j is `scale` times that. Returns the weights
// p_j = e^(s_j - m), where m is the largest score.
inline std::vector<float> weights(const std::vector<int>& S, const std::vector<float>& k_scales,
                                  float q_scale, float scale) {
  const auto score = [&](size_t j) {
    return static_cast<float>(S[j]) * (q_scale * k_scales[j % 8 / 2] * scale);
  };
  float m = -std::numeric_limits<float>::infinity();
  for (size_t j = 0; j < S.size(); ++j) m = std::max(m, score(j));
  std::vector<float> p(S.size());
  for (size_t j = 0; j < S.size(); ++j) p[j] = std::exp(score(j) - m);
  return p;
}
