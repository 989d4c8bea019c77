// Compares the gradients of every parameter of the whole model with central differences in float64.
#include <algorithm>

#include "model.hpp"
#include "test_gradient.hpp"

using namespace fa::ch20;

namespace {

const Config kTiny{5, 6, 2, 2, 4};
constexpr int64_t kBatch = 2;

std::vector<int32_t> some_tokens(const Config& config, int64_t batch, int32_t factor) {
  std::vector<int32_t> tokens(batch * config.context);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>((i * factor + i / 3) % config.vocabulary);
  }
  return tokens;
}

}  // namespace

TEST_CASE("model: the gradient of every parameter is that of central differences") {
  for (const AttentionChoice& choice : {AttentionChoice{"plain"}, {"tiled", 4}}) {
    CAPTURE(choice.name);
    std::vector<double> weights = normal_values(parameter_count(kTiny), 1),
                        gradient(weights.size());
    const std::vector<int32_t> tokens = some_tokens(kTiny, kBatch, 7),
                               targets = some_tokens(kTiny, kBatch, 3);
    Gpt<double> gpt(kTiny, kBatch, choice);
    gpt.forward(weights, tokens, targets);
    gpt.backward(weights, tokens, gradient);
    for (const Parameter& one : parameters(kTiny)) {
      check_gradient(one.name, std::span(weights).subspan(one.offset, one.size()),
                     std::span(gradient).subspan(one.offset, one.size()),
                     [&] { return gpt.forward(weights, tokens, targets); });
    }
  }
}

TEST_CASE("model: parameters lie without gaps; at the start the loss is about ln(vocabulary)") {
  const Config config{100, 32, 2, 4, 32};
  int64_t offset = 0;
  for (const Parameter& one : parameters(config)) {
    CHECK(one.offset == offset);
    offset += one.size();
  }
  CHECK(parameter_count(config) == offset);
  const std::vector<float> weights = initial_parameters(config, 0);
  CHECK(weights == initial_parameters(config, 0));
  CHECK(weights != initial_parameters(config, 1));
  Gpt<float> gpt(config, 4, {});
  const double loss = gpt.forward(weights, some_tokens(config, 4, 7), some_tokens(config, 4, 3));
  CHECK(std::abs(loss - std::log(100.0)) < 0.05);
}

TEST_CASE("model: what comes later changes no guess") {
  const Config config{20, 16, 2, 2, 8};
  const std::vector<double> weights = normal_values(parameter_count(config), 1);
  for (const AttentionChoice& choice : {AttentionChoice{"plain"}, {"tiled", 4}}) {
    Gpt<double> gpt(config, 1, choice);
    std::vector<int32_t> tokens = some_tokens(config, 1, 7);
    const std::vector<int32_t> targets = some_tokens(config, 1, 3);
    gpt.forward(weights, tokens, targets);
    const auto before = gpt.logits_gradient();
    const std::vector<double> guesses(before.begin(), before.end());
    constexpr int64_t kChanged = 9;
    tokens[kChanged] = (tokens[kChanged] + 1) % 20;
    gpt.forward(weights, tokens, targets);
    for (int64_t i = 0; i < config.context; ++i) {
      const auto row = gpt.logits_gradient().subspan(i * 20, 20);
      CHECK(std::equal(row.begin(), row.end(), guesses.begin() + i * 20) == (i < kChanged));
    }
  }
}
