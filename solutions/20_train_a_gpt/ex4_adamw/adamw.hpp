#pragma once
// One pass over the four arrays reads and writes each number once. The corrections depend on t
// alone. They are computed in double, because 1 - beta^t is the difference of two numbers that are
// nearly equal at first.

#include <cmath>
#include <cstdint>
#include <vector>

struct AdamW {
  double rate, beta1, beta2, epsilon, decay;
};

// t is 1 at the first step, is_matrix is true if weight decay applies, and gradient is as long as
// weights. weights, moment (m) and square (v), of the same length, are updated in place. Before the
// first step moment and square are 0.
inline void adamw_step(const AdamW& settings, int64_t t, bool is_matrix,
                       const std::vector<float>& gradient, std::vector<float>& weights,
                       std::vector<float>& moment, std::vector<float>& square) {
  const auto [rate, beta1, beta2, epsilon, decay] = settings;
  const double steps = static_cast<double>(t), kept = is_matrix ? 1 - rate * decay : 1;
  const double correct_m = 1 - std::pow(beta1, steps), correct_v = 1 - std::pow(beta2, steps);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double g = gradient[i];
    const double m = beta1 * moment[i] + (1 - beta1) * g;
    const double v = beta2 * square[i] + (1 - beta2) * g * g;
    const double step = m / correct_m / (std::sqrt(v / correct_v) + epsilon);
    moment[i] = static_cast<float>(m);
    square[i] = static_cast<float>(v);
    weights[i] = static_cast<float>(weights[i] * kept - rate * step);
  }
}
