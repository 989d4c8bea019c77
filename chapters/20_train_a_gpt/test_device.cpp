// The GPT with all kernels on the device, here on the emulator, with its gradients, its steps, and
// the inputs that it refuses.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "common/error.hpp"
#include "device_gpt.hpp"

using namespace fa::ch20;

namespace {

// 23 characters, so that the logits have a column of padding.
const std::u32string kText =
    U"the quick brown fox sat on the mat, the rat sat on the hat and saw the cat; it ran. ";

struct Case {
  Recipe recipe;
  const char* attention;
};

TrainingState start(const Recipe& recipe) {
  return start_training(recipe, Vocabulary::of(kText), kText, 5);
}
std::vector<int32_t> tokens() { return Vocabulary::of(kText).tokens(kText, "text"); }

std::unique_ptr<DeviceGpt> gpt_of(const TrainingState& state, const char* attention = "ch10") {
  return make_emulator_gpt(state.recipe, kernels_of(attention), true);
}

TrainingState trained(TrainingState state, int64_t steps) {
  const std::vector<int32_t> text = tokens();
  Trainer trainer(state, text, gpt_of(state));
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  trainer.fetch();
  return state;
}

const Recipe kSmall{{0, 20, 2, 3, 24}, 3};

// `make` selects the backend: make_emulator_gpt or make_gpu_gpt.
template <class Make>
void check_gradients_of(Make make) {
  REQUIRE(Vocabulary::of(kText).size() % 8 != 0);
  for (const Case& one :
       {Case{kSmall, "ch10"}, Case{{{0, 70, 1, 1, 64}, 2}, "ch16"},
        Case{{{0, 70, 1, 2, 128}, 2}, "ch22"}, Case{{{0, 7, 1, 3, 264}, 1}, "ch10"},
        Case{{{0, 1, 1, 1, 8}, 9}, "ch10"}, Case{{{0, 5, 1, 9, 1152}, 1}, "ch16"}}) {
    CAPTURE(one.recipe.model.channels);
    TrainingState state = start(one.recipe);
    // Gains, biases and means that differ from their initial values, so that all of them have an
    // effect.
    Random random{7};
    for (float& weight : state.weights) weight += static_cast<float>(random.uniform() - 0.5) / 10;
    const std::unique_ptr<DeviceGpt> gpt = make(state.recipe, kernels_of(one.attention));
    const GradientCheck check = check_gradients(state, tokens(), *gpt);
    CAPTURE(check.worst);
    CAPTURE(check.relative_error);
    CHECK(check.passed);
    CHECK(check.nonfinite == 0);
    CHECK(check.relative_error > 1e-5);  // they differ from float64's
    // A second pass gives the same result, except for the order of sums on a GPU. It must not add
    // to the results of the first.
    const GradientCheck again = check_gradients(state, tokens(), *gpt);
    CHECK(std::abs(again.relative_error - check.relative_error) <= 0.1 * check.relative_error);
  }
}

}  // namespace

TEST_CASE("device: the gradients are those of float64, to bf16") {
  check_gradients_of([](const Recipe& recipe, const AttentionKernels& kernels) {
    return make_emulator_gpt(recipe, kernels, true);
  });
}

TEST_CASE("device: on a GPU, the gradients are those of float64, to bf16" *
          doctest::test_suite("gpu")) {
  for (const char* name : {"ch10", "ch22"}) {
    const std::string why = gpu_problem(kernels_of(name));
    if (why.empty()) continue;
    CHECK_THROWS_WITH_AS(make_gpu_gpt(start(kSmall).recipe, kernels_of(name)), why.c_str(),
                         fa::InputError);
    MESSAGE("skipped, it takes a GPU: " << why);
    return;
  }
  check_gradients_of(make_gpu_gpt);
}

TEST_CASE("device: gradients of other weights do not pass for these") {
  const TrainingState state = start(kSmall);
  TrainingState other = state;
  for (float& weight : other.weights) weight *= 1.05f;
  struct Other final : DeviceGpt {  // the same GPT, but always with the other weights
    void put(const TrainingState&) override { gpt->put(*weights); }
    void get(TrainingState&) const override {}
    double gradient(const Batch& batch, std::span<float> to) override {
      return gpt->gradient(batch, to);
    }
    double step(const Batch&, int64_t) override { return 0; }
    int64_t attention_bytes() const override { return 0; }
    std::unique_ptr<DeviceGpt> gpt;
    const TrainingState* weights = nullptr;
  } wrong;
  wrong.gpt = gpt_of(state);
  wrong.weights = &other;
  CHECK_FALSE(check_gradients(state, tokens(), wrong).passed);
}

TEST_CASE("device: its steps are those of the CPU, to bf16") {
  const std::vector<int32_t> text = tokens();
  TrainingState on_cpu = start(kSmall);
  Trainer trainer(on_cpu, text, {"plain"});
  for (int i = 0; i < 6; ++i) trainer.step();
  const TrainingState state = trained(start(kSmall), 6);
  REQUIRE(state.losses.size() == 6);
  for (int i = 0; i < 6; ++i) CHECK(std::abs(state.losses[i] - on_cpu.losses[i]) <= 5e-3);
  CHECK(state.random.state == on_cpu.random.state);
  // Compares the distance between the two results with the distance that each has moved.
  const TrainingState first = start(kSmall);
  double apart = 0, way = 0;
  for (size_t i = 0; i < state.weights.size(); ++i) {
    apart += std::pow(state.weights[i] - on_cpu.weights[i], 2);
    way += std::pow(on_cpu.weights[i] - first.weights[i], 2);
  }
  CHECK(std::sqrt(apart) <= 0.2 * std::sqrt(way));
  CHECK(way > 0);
}

TEST_CASE("device: what is put there comes back, and training goes on from it") {
  const TrainingState half = trained(start(kSmall), 3), whole = trained(start(kSmall), 5);
  const TrainingState resumed = trained(half, 2);
  CHECK(resumed.weights == whole.weights);
  CHECK(resumed.moment == whole.moment);
  CHECK(resumed.square == whole.square);
  CHECK(resumed.losses == whole.losses);
  TrainingState copy = half;
  const std::unique_ptr<DeviceGpt> gpt = gpt_of(half);
  gpt->put(half);
  gpt->get(copy);
  CHECK(copy.weights == half.weights);
  CHECK(copy.moment == half.moment);
  CHECK(copy.square == half.square);
}

TEST_CASE("device: sizes that the kernels do not take") {
  const auto refuse = [](const Config& config, const char* attention, const char* says) {
    const Recipe recipe{config, 1};
    CHECK_THROWS_WITH_AS(make_emulator_gpt(recipe, kernels_of(attention)), doctest::Contains(says),
                         fa::InputError);
  };
  refuse({30, 4, 1, 1, 12}, "ch10", "head size 12");
  refuse({30, 4, 1, 1, 32}, "ch16", "head size 32");
  refuse({30, 4, 1, 1, 32}, "ch22", "head size 32");
  refuse({30, 4, 1, 24, 1728}, "ch10", "--channels 1728");
}
