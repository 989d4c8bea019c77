#include "verdict.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/check.hpp"

namespace fa::ch24 {

Verdict::Verdict(const ch20::TrainingState& trained, double bound)
    : config_(trained.recipe.model),
      bound_(bound),
      weights_(trained.weights.begin(), trained.weights.end()),
      gpt_(config_, 1, {"plain"}) {
  numbers_.passed = true;
}

void Verdict::add(const Answer& answer) {
  const int64_t vocabulary = config_.vocabulary, length = std::ssize(answer.tokens);
  std::vector<int32_t> tokens(answer.tokens.begin(), answer.tokens.end());
  tokens.resize(config_.context + 1);  // later tokens change nothing
  const std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
  tokens.pop_back();
  gpt_.forward(weights_, tokens, targets);
  for (int64_t at = answer.prompt_length; at < length; ++at) {
    // Row at - 1 of the logits' gradient is (P - one_hot(target)) / context.
    std::vector<double> expected(vocabulary), got(vocabulary);
    double sum = 0;
    for (int64_t j = 0; j < vocabulary; ++j) {
      const double P =
          gpt_.logits_gradient()[(at - 1) * vocabulary + j] * static_cast<double>(config_.context) +
          (j == targets[at - 1]);
      expected[j] = std::log(P);
      got[j] = answer.logits[(at - answer.prompt_length) * vocabulary + j];
    }
    const double m = *std::max_element(got.begin(), got.end());
    for (const double logit : got) sum += std::exp(logit - m);
    double worst = 0;
    for (int64_t j = 0; j < vocabulary; ++j) {
      got[j] -= m + std::log(sum);
      const double error = std::abs(got[j] - expected[j]);
      worst = max_keeping_nan(error, worst);
      numbers_.mismatches += !(error <= bound_);
      numbers_.nonfinite += !std::isfinite(got[j]);
    }
    numbers_.elements += vocabulary;
    numbers_.max_abs_error = max_keeping_nan(worst, numbers_.max_abs_error);

    // [anchor: verdict]
    std::vector<double> sorted = expected;
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
    const double best = *std::max_element(expected.begin(), expected.end());
    const double margin = best - sorted[1];
    const bool right = worst <= bound_ && best - expected[answer.tokens[at]] <= 2 * bound_;
    const bool decided = margin > 2 * bound_;
    // [/anchor: verdict]
    const int64_t token = at - answer.prompt_length;
    if (!decided && (undecided_.empty() || undecided_.back().request != answer.number)) {
      undecided_.push_back({answer.number, token, margin});
    }
    if (!right && numbers_.passed) {
      char text[120];
      std::snprintf(
          text, sizeof text, "request %lld, token %lld: log P is off by %.3g, allowed %.3g",
          static_cast<long long>(answer.number), static_cast<long long>(token), worst, bound_);
      first_wrong_ = text;
    }
    numbers_.passed = numbers_.passed && right;
  }
}

}  // namespace fa::ch24
