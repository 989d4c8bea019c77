#pragma once
// Training: which characters come next, AdamW, and the state that one step hands to the next.

#include <cstdint>
#include <string>
#include <vector>

#include "model.hpp"
#include "random.hpp"
#include "text.hpp"

namespace fa::ch20 {

// What decides how a run goes, with the text and the seed. The number of steps is not in it.
struct Recipe {
  Config model;  // the vocabulary is the text's
  int64_t batch = 8;
  double learning_rate = 2e-3;
  int64_t warm_up = 20;  // steps in which the learning rate grows to that, linearly
  bool operator==(const Recipe&) const = default;
};

// All that the next step depends on, beside the text: a checkpoint is this.
struct TrainingState {
  Recipe recipe;
  std::u32string vocabulary;
  char32_t first = 0;  // character of the text; `generate` starts there if the text has no line
  uint64_t text = 0;   // the text's fingerprint
  int64_t seed = 0;
  Random random{0};                   // of the data's order
  std::vector<double> losses;         // of each step so far, before its update
  std::vector<float> weights;         // [parameter_count]
  std::vector<float> moment, square;  // AdamW's: means of the gradient and of its square

  int64_t steps() const { return static_cast<int64_t>(losses.size()); }
};

// Weights and random numbers of the seed, no step done. Throws InputError if `recipe` makes no
// model, or the text is shorter than a context and one character.
TrainingState start_training(const Recipe& recipe, const Vocabulary& vocabulary,
                             std::u32string_view text, int64_t seed);

struct Batch {
  std::vector<int32_t> tokens, targets;  // [batch, context]; each target is the token behind
};
Batch next_batch(const TrainingState& state, std::span<const int32_t> text, Random& random);

// What one step of AdamW (Loshchilov and Hutter 2019) has for all parameters alike.
struct AdamStep {
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8, kDecay = 0.1;
  AdamStep(const Recipe& recipe, int64_t t);  // step number t, from 1 on
  double rate;
  // Both means began as 0: after few steps they are too small by these factors.
  double correct_moment, correct_square;
};
// That step for a gradient [parameter_count].
void update(TrainingState& state, std::span<const float> gradient);

class DeviceGpt;

class Trainer {
 public:
  // `text` is the whole text in tokens of the state's vocabulary; both outlive the trainer.
  Trainer(TrainingState& state, std::span<const int32_t> text, const AttentionChoice& attention);
  // The same steps, taken where `gpt` is.
  Trainer(TrainingState& state, std::span<const int32_t> text, std::unique_ptr<DeviceGpt> gpt);
  ~Trainer();
  // Returns the loss before the update. No finite loss: the weights are lost, and further steps are
  // NaN.
  double step();
  // Brings the state's weights and means up to date, if they are elsewhere.
  void fetch();

 private:
  TrainingState& state_;
  const std::span<const int32_t> text_;
  std::unique_ptr<Gpt<float>> gpt_;
  std::unique_ptr<DeviceGpt> device_gpt_;  // one of the two
  std::vector<float> gradient_;
};

// The gradients of the next step by `attention`, in fp32, against those by plain attention in
// float64. The worst parameter's |difference| / (|gradient| + a thousandth of all gradients'), in
// 2-norms: the keys' bias has no gradient at all but rounding.
struct GradientCheck {
  double relative_error = 0;
  std::string worst;  // the parameter
  bool passed = false;
  // Of single numbers: how many there are, are not finite, are further off than the bound times
  // their parameter's 2-norm above, and by how much at most (NaN if one is not finite).
  int64_t elements = 0, nonfinite = 0, mismatches = 0;
  double max_abs_error = 0;
};
GradientCheck check_gradients(const TrainingState& state, std::span<const int32_t> text,
                              const AttentionChoice& attention);
// Those by `gpt`, in bf16.
GradientCheck check_gradients(const TrainingState& state, std::span<const int32_t> text,
                              DeviceGpt& gpt);

}  // namespace fa::ch20
