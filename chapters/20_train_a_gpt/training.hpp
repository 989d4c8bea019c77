#pragma once
// The parts of training are the data (which character comes next), AdamW, and the state that one
// step passes to the next.

#include <cstdint>
#include <string>
#include <vector>

#include "model.hpp"
#include "random.hpp"
#include "text.hpp"

namespace fa::ch20 {

// Everything that determines a run, together with the text and the seed, except the number of
// steps.
struct Recipe {
  Config model;  // the vocabulary is that of the text
  int64_t batch = 8;
  double learning_rate = 2e-3;
  int64_t warm_up = 20;  // steps in which the learning rate grows linearly to learning_rate
  bool operator==(const Recipe&) const = default;
};

// Everything that the next step depends on, except the text. A checkpoint contains exactly this.
struct TrainingState {
  Recipe recipe;
  std::u32string vocabulary;
  char32_t first = 0;  // first character of the text; `generate` starts with it if the text has no
                       // line break
  uint64_t text = 0;   // the text's fingerprint
  int64_t seed = 0;
  Random random{0};                   // generator of the data's order
  std::vector<double> losses;         // loss of each step so far, before its update
  std::vector<float> weights;         // [parameter_count]
  std::vector<float> moment, square;  // AdamW's running means of the gradient and of its square

  int64_t steps() const { return static_cast<int64_t>(losses.size()); }
};

// Returns the initial state, with weights and random numbers of the seed. Throws InputError if
// `recipe` defines no valid model, or if the text is not longer than a context.
TrainingState start_training(const Recipe& recipe, const Vocabulary& vocabulary,
                             std::u32string_view text, int64_t seed);

struct Batch {
  std::vector<int32_t> tokens, targets;  // [batch, context], where a target is the next token
};
Batch next_batch(const TrainingState& state, std::span<const int32_t> text, Random& random);

// The factors of one step of AdamW (Loshchilov and Hutter 2019), the same for all parameters.
struct AdamStep {
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8, kDecay = 0.1;
  AdamStep(const Recipe& recipe, int64_t t);  // step number t, counted from 1
  double rate;
  // Both means start at 0, so they are too small by these factors after few steps.
  double correct_moment, correct_square;
};
// Takes that step with a gradient [parameter_count].
void update(TrainingState& state, std::span<const float> gradient);

class DeviceGpt;

class Trainer {
 public:
  // `text` is the whole text in tokens of the state's vocabulary. Both arguments must outlive the
  // trainer.
  Trainer(TrainingState& state, std::span<const int32_t> text, const AttentionChoice& attention);
  // Takes the same steps on the device of `gpt`.
  Trainer(TrainingState& state, std::span<const int32_t> text, std::unique_ptr<DeviceGpt> gpt);
  ~Trainer();
  // Returns the loss before the update. If it is not finite, the weights are lost and further steps
  // give NaN.
  double step();
  // Updates the state's weights and means, if they are on a device.
  void fetch();

 private:
  TrainingState& state_;
  const std::span<const int32_t> text_;
  std::unique_ptr<Gpt<float>> gpt_;
  std::unique_ptr<DeviceGpt> device_gpt_;  // either this or gpt_
  std::vector<float> gradient_;
};

// Compares the gradients of the next step by `attention`, in fp32, with those by plain attention in
// float64. relative_error is the worst parameter's |difference| / (|gradient| + a thousandth of
// that of all gradients), in 2-norms, because the gradient of the keys' bias is only rounding
// noise.
struct GradientCheck {
  double relative_error = 0;
  std::string worst;  // name of that parameter
  bool passed = false;
  // Counts of single elements, namely how many there are, how many are not finite, how many differ
  // by more than the bound times their parameter's 2-norm above, and the largest difference (NaN if
  // one is not finite).
  int64_t elements = 0, nonfinite = 0, mismatches = 0;
  double max_abs_error = 0;
};
GradientCheck check_gradients(const TrainingState& state, std::span<const int32_t> text,
                              const AttentionChoice& attention);
// The same for the gradients by `gpt`, in bf16.
GradientCheck check_gradients(const TrainingState& state, std::span<const int32_t> text,
                              DeviceGpt& gpt);

}  // namespace fa::ch20
