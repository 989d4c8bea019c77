#include "training.hpp"

#include <algorithm>
#include <cmath>

#include "common/error.hpp"
#include "device_gpt.hpp"

namespace fa::ch20 {

TrainingState start_training(const Recipe& recipe, const Vocabulary& vocabulary,
                             std::u32string_view text, int64_t seed) {
  TrainingState state;
  state.recipe = recipe;
  Config& config = state.recipe.model;
  if (config.channels % config.heads != 0) {
    throw InputError("--channels " + std::to_string(config.channels) +
                     ": expected a multiple of --heads " + std::to_string(config.heads));
  }
  if (static_cast<int64_t>(text.size()) <= config.context) {
    throw InputError("the text has " + std::to_string(text.size()) +
                     " characters: expected more than --context " + std::to_string(config.context));
  }
  config.vocabulary = vocabulary.size();
  state.vocabulary = vocabulary.characters();
  state.first = text.front();
  state.seed = seed;
  state.random.state = static_cast<uint64_t>(seed);
  state.weights = initial_parameters(config, static_cast<uint64_t>(seed));
  state.moment.resize(state.weights.size());
  state.square.resize(state.weights.size());
  return state;
}

Batch next_batch(const TrainingState& state, std::span<const int32_t> text, Random& random) {
  const int64_t context = state.recipe.model.context;
  Batch batch;
  for (int64_t i = 0; i < state.recipe.batch; ++i) {
    const auto first = text.begin() + random.below(std::ssize(text) - context);
    batch.tokens.insert(batch.tokens.end(), first, first + context);
    batch.targets.insert(batch.targets.end(), first + 1, first + context + 1);
  }
  return batch;
}

// [anchor: adamw]
AdamStep::AdamStep(const Recipe& recipe, int64_t t)
    : rate(recipe.learning_rate *
           std::min(1.0, static_cast<double>(t) / static_cast<double>(recipe.warm_up))),
      correct_moment(1 - std::pow(kBeta1, t)),
      correct_square(1 - std::pow(kBeta2, t)) {}

void update(TrainingState& state, std::span<const float> gradient) {
  const AdamStep adam(state.recipe, state.steps());  // this step is already counted
  for (const Parameter& one : parameters(state.recipe.model)) {
    const double decay = one.is_matrix ? adam.rate * adam.kDecay : 0;
    for (int64_t i = one.offset; i < one.offset + one.size(); ++i) {
      const double g = gradient[i];
      const double moment = adam.kBeta1 * state.moment[i] + (1 - adam.kBeta1) * g;
      const double square = adam.kBeta2 * state.square[i] + (1 - adam.kBeta2) * g * g;
      const double step =
          moment / adam.correct_moment / (std::sqrt(square / adam.correct_square) + adam.kEpsilon);
      state.moment[i] = static_cast<float>(moment);
      state.square[i] = static_cast<float>(square);
      state.weights[i] = static_cast<float>(state.weights[i] * (1 - decay) - adam.rate * step);
    }
  }
}
// [/anchor: adamw]

Trainer::Trainer(TrainingState& state, std::span<const int32_t> text,
                 const AttentionChoice& attention)
    : state_(state),
      text_(text),
      gpt_(std::make_unique<Gpt<float>>(state.recipe.model, state.recipe.batch, attention)),
      gradient_(state.weights.size()) {}

Trainer::Trainer(TrainingState& state, std::span<const int32_t> text,
                 std::unique_ptr<DeviceGpt> gpt)
    : state_(state), text_(text), device_gpt_(std::move(gpt)) {
  device_gpt_->put(state);
}

Trainer::~Trainer() = default;

double Trainer::step() {
  const Batch batch = next_batch(state_, text_, state_.random);
  if (device_gpt_) {
    state_.losses.push_back(device_gpt_->step(batch, state_.steps() + 1));
    return state_.losses.back();
  }
  const double loss = gpt_->forward(state_.weights, batch.tokens, batch.targets);
  gpt_->backward(state_.weights, batch.tokens, gradient_);
  state_.losses.push_back(loss);
  update(state_, gradient_);
  return loss;
}

void Trainer::fetch() {
  if (device_gpt_) device_gpt_->get(state_);
}

namespace {

Batch coming_batch(const TrainingState& state, std::span<const int32_t> text) {
  Random random = state.random;  // a copy, so that the step draws the same batch
  return next_batch(state, text, random);
}

GradientCheck compare(const TrainingState& state, const Batch& batch,
                      std::span<const float> gradient, double bound) {
  const std::vector<double> weights(state.weights.begin(), state.weights.end());
  std::vector<double> exact(weights.size());
  Gpt<double> exact_gpt(state.recipe.model, state.recipe.batch, {"plain"});
  exact_gpt.forward(weights, batch.tokens, batch.targets);
  exact_gpt.backward(weights, batch.tokens, exact);

  double all = 0;
  for (const double g : exact) all += g * g;
  GradientCheck check;
  check.elements = std::ssize(gradient);
  for (const Parameter& one : parameters(state.recipe.model)) {
    double norm = 0, difference = 0;
    for (int64_t i = one.offset; i < one.offset + one.size(); ++i) {
      norm += exact[i] * exact[i];
      difference += (gradient[i] - exact[i]) * (gradient[i] - exact[i]);
    }
    const double size = std::sqrt(norm) + 1e-3 * std::sqrt(all);
    for (int64_t i = one.offset; i < one.offset + one.size(); ++i) {
      const double error = std::abs(gradient[i] - exact[i]);
      check.nonfinite += !std::isfinite(gradient[i]);
      check.mismatches += !(error <= bound * size);
      // A NaN counts as the largest error and stays.
      if (!(error <= check.max_abs_error) && !std::isnan(check.max_abs_error)) {
        check.max_abs_error = error;
      }
    }
    const double error = difference == 0 ? 0 : std::sqrt(difference) / size;  // 0/0 is no error
    if (!(error <= check.relative_error) && !std::isnan(check.relative_error)) {
      check.worst = one.name;
      check.relative_error = error;
    }
  }
  check.passed = check.relative_error <= bound;
  return check;
}

}  // namespace

GradientCheck check_gradients(const TrainingState& state, std::span<const int32_t> text,
                              const AttentionChoice& attention) {
  const Batch batch = coming_batch(state, text);
  std::vector<float> gradient(state.weights.size());
  Gpt<float> gpt(state.recipe.model, state.recipe.batch, attention);
  gpt.forward(state.weights, batch.tokens, batch.targets);
  gpt.backward(state.weights, batch.tokens, gradient);
  // fp32 sums of some thousand terms, for which we measured 1e-6. bf16 rounds by 2^-9, and we
  // measured 7e-4.
  return compare(state, batch, gradient, is_kernel(attention.name) ? 1e-2 : 1e-4);
}

GradientCheck check_gradients(const TrainingState& state, std::span<const int32_t> text,
                              DeviceGpt& gpt) {
  const Batch batch = coming_batch(state, text);
  std::vector<float> gradient(state.weights.size());
  gpt.put(state);
  gpt.gradient(batch, gradient);
  return compare(state, batch, gradient, 2e-2);  // we measured 5e-3
}

}  // namespace fa::ch20
