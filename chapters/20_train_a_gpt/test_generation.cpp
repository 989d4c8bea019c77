// In generation, decoding one token at a time with the paged cache gives the results of the whole
// sequence.
#include <cmath>
#include <vector>

#include "common/error.hpp"
#include "generation.hpp"
#include "test_gradient.hpp"

using namespace fa::ch20;

namespace {

const std::u32string kText = U"abcdefghijk abcdefghijk abcdefghijk";

// Longer than one page of the cache, with weights far from their initial values, so that attention
// has an effect.
TrainingState some_model() {
  TrainingState state = start_training({{0, 21, 2, 2, 8}, 1}, Vocabulary::of(kText), kText, 3);
  for (float& weight : state.weights) weight *= 8;
  return state;
}

std::vector<double> probabilities(std::span<const float> logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) sum += p.emplace_back(std::exp(double{x}));
  for (double& x : p) x /= sum;
  return p;
}

// Computes the whole sequence, row by row, with training's forward pass, whose gradient of the
// logits is (P - one_hot(target)) / rows.
std::vector<std::vector<double>> all_at_once(const TrainingState& model,
                                             std::vector<int32_t> tokens) {
  const Config& config = model.recipe.model;
  tokens.resize(config.context);  // later tokens change nothing
  const std::vector<int32_t> targets(config.context, 0);
  Gpt<float> gpt(config, 1, {"plain"});
  gpt.forward(model.weights, tokens, targets);
  std::vector<std::vector<double>> P(config.context);
  for (int64_t i = 0; i < config.context; ++i) {
    for (int64_t j = 0; j < config.vocabulary; ++j) {
      P[i].push_back(gpt.logits_gradient()[i * config.vocabulary + j] *
                         static_cast<double>(config.context) +
                     (j == 0));
    }
  }
  return P;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i], 1e-5));
}

}  // namespace

TEST_CASE("generation: the paged cache guesses what the whole sequence guesses") {
  const TrainingState model = some_model();
  const Config& config = model.recipe.model;
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < config.context; ++i) {
    tokens.push_back(static_cast<int32_t>((i * 5 + i / 4) % config.vocabulary));
  }
  const auto expected = all_at_once(model, tokens);
  Decoder decoder(model);
  for (int64_t i = 0; i < config.context; ++i) {
    CAPTURE(i);
    check_close(probabilities(decoder.next(tokens[i])), expected[i]);
    CHECK(decoder.length() == i + 1);
    CHECK(decoder.pages_used() == i / 16 + 1);
  }
  // When it is full, the later half is decoded again at positions from 0.
  std::vector<int32_t> kept(tokens.end() - config.context / 2, tokens.end());
  kept.push_back(7);
  check_close(probabilities(decoder.next(7)), all_at_once(model, kept)[kept.size() - 1]);
  CHECK(decoder.length() == config.context / 2 + 1);
  CHECK(decoder.pages_used() == 1);
}

TEST_CASE("generation: a token is as likely as softmax says") {
  const std::vector<float> logits = {1, 3, 2};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<float> scaled;
    for (const float x : logits) scaled.push_back(static_cast<float>(x / temperature));
    const std::vector<double> expected = probabilities(scaled);
    Random random{1};
    std::vector<double> seen(3);
    constexpr int kDraws = 40'000;  // the standard deviation of a share is at most 0.0025
    for (int i = 0; i < kDraws; ++i) seen[sample(logits, temperature, random)] += 1.0 / kDraws;
    for (int j = 0; j < 3; ++j) CHECK(std::abs(seen[j] - expected[j]) < 0.0125);
  }
  Random random{2};
  for (int i = 0; i < 100; ++i) CHECK(sample(logits, 1e-3, random) == 1);
}

TEST_CASE("generation: the seed decides, past the context too; other characters are refused") {
  const TrainingState model = some_model();
  const std::string text = generate(model, "abc", 60, 1, 4);
  CHECK(text.size() == 63);
  CHECK(text.starts_with("abc"));
  CHECK(generate(model, "abc", 60, 1, 4) == text);
  CHECK(generate(model, "abc", 60, 1, 5) != text);
  CHECK(generate(model, "abc", 0, 1, 4) == "abc");
  CHECK_THROWS_AS(generate(model, "", 5, 1, 4), fa::InputError);
  CHECK_THROWS_AS(generate(model, "xyz", 5, 1, 4), fa::InputError);
}
