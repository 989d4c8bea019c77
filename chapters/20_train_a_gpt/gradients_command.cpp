#include "gradients_command.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "common/check.hpp"
#include "common/error.hpp"
#include "model.hpp"
#include "training.hpp"

namespace fa::ch20 {

int show_gradients(const AttentionChoice& attention) {
  const Config config{7, 8, 1, 2, 4};
  constexpr int64_t kBatch = 2;
  constexpr double h = 1e-5, kBound = 1e-8;
  const std::vector<float> initial = initial_parameters(config, 1);
  std::vector<double> weights(initial.begin(), initial.end());
  for (double& w : weights)
    w = 10 * w + 0.1;  // with the initial weights, much of the model is
                       // nearly linear
  Random random{1};
  std::vector<int32_t> tokens, targets;
  for (int64_t i = 0; i < kBatch * config.context; ++i) {
    tokens.push_back(static_cast<int32_t>(random.below(config.vocabulary)));
    targets.push_back(static_cast<int32_t>(random.below(config.vocabulary)));
  }
  Gpt<double> gpt(config, kBatch, attention);
  std::vector<double> gradient(weights.size());
  gpt.forward(weights, tokens, targets);
  gpt.backward(weights, tokens, gradient);

  std::printf("%-26s %8s %12s %14s\n", "parameter", "numbers", "largest", "difference");
  bool right = true;
  for (const Parameter& one : parameters(config)) {
    double largest = 0, difference = 0;
    for (int64_t i = one.offset; i < one.offset + one.size(); ++i) {
      const double at = weights[i];
      const auto slope = [&](double step) {
        weights[i] = at + step;
        const double above = gpt.forward(weights, tokens, targets);
        weights[i] = at - step;
        const double below = gpt.forward(weights, tokens, targets);
        weights[i] = at;
        return (above - below) / (2 * step);
      };
      // The error of a slope is h² times the third derivative, which layer norm makes large if a
      // token's variance is small. We measured 6e-6. Combining two slopes removes that term.
      const double expected = (4 * slope(h) - slope(2 * h)) / 3;
      largest = max_keeping_nan(std::abs(gradient[i]), largest);
      const double error = std::abs(gradient[i] - expected);
      difference = max_keeping_nan(error, difference);
    }
    const bool agrees = difference <= kBound;
    right = right && agrees;
    if (agrees) {
      std::printf("%-26s %8lld %12.5f %14s\n", one.name.c_str(), static_cast<long long>(one.size()),
                  largest, "below 1e-8");
    } else {
      std::printf("%-26s %8lld %12.5f %14.1e  WRONG\n", one.name.c_str(),
                  static_cast<long long>(one.size()), largest, difference);
    }
  }
  std::printf(right ? "all %lld gradients are those of central differences\n"
                    : "not all of %lld gradients are those of central differences\n",
              static_cast<long long>(weights.size()));
  return right ? kAgreed : kDisagreed;
}

}  // namespace fa::ch20
