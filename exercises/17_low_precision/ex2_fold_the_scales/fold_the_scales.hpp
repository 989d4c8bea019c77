#pragma once
// A row of integer scores and their scales.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "exercises/support/todo.hpp"

// S has integers, q . k of a query with each key. The query's numbers have to be multiplied by
// q_scale, those of keys 0 and 1, 8 and 9, 16 and 17, … by k_scales[0], of keys 2 and 3, 10 and 11,
// … by k_scales[1], and so on, four of them. Score s_j is `scale` times that. Returns the weights
// p_j = e^(s_j - m), where m is the largest score.
inline std::vector<float> weights(const std::vector<int>& S, const std::vector<float>& k_scales,
                                  float q_scale, float scale) {
  exercise::todo("TODO(17.2): the scale of key j, m, and one exponential per weight");
}
