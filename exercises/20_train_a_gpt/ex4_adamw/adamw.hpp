#pragma once
// One step of training for one parameter.

#include <cmath>
#include <cstdint>
#include <vector>

#include "exercises/support/todo.hpp"

struct AdamW {
  double rate, beta1, beta2, epsilon, decay;
};

// t is 1 at the first step, is_matrix is true if weight decay applies, and gradient is as long as
// weights. weights, moment (m) and square (v), of the same length, are updated in place. Before the
// first step moment and square are 0.
inline void adamw_step(const AdamW& settings, int64_t t, bool is_matrix,
                       const std::vector<float>& gradient, std::vector<float>& weights,
                       std::vector<float>& moment, std::vector<float>& square) {
  exercise::todo("TODO(20.4): both means, their corrections, and the new weights");
}
