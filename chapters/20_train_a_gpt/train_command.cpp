#include "train_command.hpp"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "breaks.hpp"
#include "checkpoint.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/gpu/runtime.hpp"
#include "common/json_report.hpp"
#include "common/memory.hpp"
#include "common/parse.hpp"
#include "common/program.hpp"
#include "common/text.hpp"
#include "common/timer.hpp"
#include "device_gpt.hpp"
#include "limits.hpp"

namespace fa::ch20 {
namespace {

constexpr int64_t kStepsBetweenCheckpoints = 250;
// The check computes plain attention in float64. Beyond this length it would be most of the run
// time.
constexpr int64_t kLongestChecked = 1024;
constexpr double kMostChecked = 1e10;  // parameters times tokens, which takes several seconds

std::string fixed(double value, int decimals) { return fa::text("%.*f", decimals, value); }

// Returns the initial state, which is a new one, or the checkpoint's.
TrainingState first_state(const TrainRequest& request, const Cli& given, const std::string& bytes,
                          const std::u32string& text) {
  if (!request.resume) {
    TrainingState state = start_training(request.recipe, Vocabulary::of(text), text, request.seed);
    state.text = fingerprint(bytes);
    return state;
  }
  TrainingState state = load_checkpoint(request.checkpoint);
  const auto same = [&](const char* option, auto asked, auto saved) {
    if (!given.given(option) || asked == saved) return;
    std::ostringstream message;
    message << option << " " << asked << ": the checkpoint has " << saved;
    throw InputError(message.str());
  };
  const Recipe &asked = request.recipe, &saved = state.recipe;
  same("--context", asked.model.context, saved.model.context);
  same("--layers", asked.model.layers, saved.model.layers);
  same("--heads", asked.model.heads, saved.model.heads);
  same("--channels", asked.model.channels, saved.model.channels);
  same("--batch", asked.batch, saved.batch);
  same("--learning-rate", asked.learning_rate, saved.learning_rate);
  same("--seed", request.seed, state.seed);
  if (state.text != fingerprint(bytes)) {
    throw InputError(request.checkpoint +
                     ": was trained on another text: expected the same --text");
  }
  if (state.steps() > request.steps) {
    throw InputError("--steps " + std::to_string(request.steps) + ": the checkpoint has " +
                     std::to_string(state.steps()) + " steps already");
  }
  return state;
}

// "step 120  loss 2.345  4321 tokens/s  35 s left"
class Progress {
 public:
  Progress(const TrainingState& state, int64_t steps)
      : state_(state),
        first_(state.steps()),
        steps_(steps),
        every_(std::max<int64_t>(steps / 10, 1)) {}

  void after_step() {
    const int64_t done = state_.steps();
    const bool stays = done % every_ == 0 || done == steps_ || done == 1;
    const double now = seconds();
    if (!stays && !(terminal_ && now - last_ > 0.2)) return;
    last_ = now;
    const double speed = static_cast<double>(done - first_) / now;  // steps per second
    std::string line = "step " + std::to_string(done) + "  loss " + fixed(mean(stays), 3);
    if (!times_hidden()) {
      const int64_t tokens = state_.recipe.batch * state_.recipe.model.context;
      line += "  " + fixed(speed * static_cast<double>(tokens), 0) + " tokens/s  " +
              fixed(static_cast<double>(steps_ - done) / speed, 0) + " s left";
    }
    if (terminal_) std::cout << "\r\x1b[K";
    std::cout << line << (stays ? "\n" : "") << std::flush;
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  // Returns the mean of the losses since the last line that stays on the screen, because the loss
  // of a single batch is noisy.
  double mean(bool stays) {
    const int64_t begin = std::max(since_, first_);
    double sum = 0;
    for (int64_t i = begin; i < state_.steps(); ++i) sum += state_.losses[i];
    const double result = sum / static_cast<double>(state_.steps() - begin);
    if (stays) since_ = state_.steps();
    return result;
  }

  const TrainingState& state_;
  const int64_t first_, steps_, every_;
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double last_ = 0;
  int64_t since_ = 0;
};

nlohmann::json report(const TrainRequest& request, const TrainingState& state,
                      const std::optional<GradientCheck>& check, int64_t attention_bytes,
                      const std::vector<double>& step_ms, double seconds) {
  nlohmann::json losses = nlohmann::json::array();
  for (const double loss : state.losses) losses.push_back(json_number(loss));
  const Config& model = state.recipe.model;
  nlohmann::json json = {{"chapter", "ch20_train_a_gpt"},
                         {"attention", request.attention.name},
                         {"device", request.device},
                         {"block", request.attention.block},
                         {"breaks", request.breaks},
                         {"seed", state.seed},
                         {"steps", state.steps()},
                         {"model",
                          {{"vocabulary", model.vocabulary},
                           {"context", model.context},
                           {"layers", model.layers},
                           {"heads", model.heads},
                           {"channels", model.channels},
                           {"parameters", parameter_count(model)}}},
                         {"batch", state.recipe.batch},
                         {"learning_rate", state.recipe.learning_rate},
                         {"loss", losses},
                         {"attention_bytes", attention_bytes},
                         {"seconds", seconds},
                         {"check", nullptr}};
  if (!step_ms.empty()) json["ms_per_step"] = median(step_ms);
  if (check) {
    json["check"] = {{"passed", check->passed},
                     {"elements", check->elements},
                     {"mismatches", check->mismatches},
                     {"nonfinite", check->nonfinite},
                     {"max_abs_error", json_number(check->max_abs_error)},
                     {"relative_error", json_number(check->relative_error)},
                     {"worst", check->worst}};
  }
  return json;
}

RunResult result_of(const GradientCheck& check) {
  return {.passed = check.passed,
          .elements = check.elements,
          .mismatches = check.mismatches,
          .nonfinite = check.nonfinite,
          .max_abs_error = check.max_abs_error};
}

AttentionShape shape_of(const Recipe& recipe) {
  const Config& model = recipe.model;
  return {recipe.batch, model.heads, model.context, model.channels / model.heads};
}

// Returns the attention algorithm of the run. On a device with kernels it is the fastest kernel by
// default.
AttentionChoice choose_attention(const TrainRequest& request, const Cli& given, int64_t dim) {
  AttentionChoice choice = request.attention;
  choice.breaks = parse_breaks(request.breaks, BREAKS);
  if (request.device != "cpu" && !given.given("--attention")) {
    const bool newest = request.device == "gpu" && (dim == 64 || dim == 128) &&
                        gpu_problem(kernels_of("ch22")).empty();
    choice.name = newest ? "ch22" : "ch10";
  }
  if (choice.breaks != 0 && choice.name != "tiled") {
    throw InputError("--break: the breaks are in the tiled attention: expected --attention tiled");
  }
  if (request.device != "cpu" && !is_kernel(choice.name)) {
    throw InputError("--attention " + choice.name + ": accepted with --device " + request.device +
                     ": ch10, ch16, ch22");
  }
  return choice;
}

std::unique_ptr<DeviceGpt> make_device_gpt(const TrainRequest& request, const Recipe& recipe) {
  const AttentionKernels kernels = kernels_of(request.attention.name);
  return request.device == "gpu" ? make_gpu_gpt(recipe, kernels)
                                 : make_emulator_gpt(recipe, kernels);
}

[[noreturn]] void too_much_memory(const TrainRequest& request, const TrainingState& state) {
  const Config& model = state.recipe.model;
  const double needed =
      static_cast<double>(attention_bytes(request.attention, shape_of(state.recipe), model.layers));
  throw OutOfMemory(
      "--attention " + request.attention.name + " at --context " + std::to_string(model.context) +
      " needs " + format_bytes(needed) + ": expected at most " +
      (request.memory_limit > 0
           ? format_bytes(static_cast<double>(request.memory_limit)) + ", the --memory-limit"
           : format_bytes(memory_bytes()) + ", the memory of this machine"));
}

}  // namespace

void declare(Cli& cli, TrainRequest& request) {
  Recipe& recipe = request.recipe;
  const auto number = [&](const char* option, int64_t& target, Limits limits, const char* help) {
    cli.integer(option, target, limits.min, limits.max,
                std::string(help) + " [" + std::to_string(target) + "]");
  };
  cli.choice(
      "--attention", request.attention.name, {"plain", "tiled", "ch10", "ch16", "ch19", "ch22"},
      "attention of the model, where ch10 is the kernels of chapters 09 and 10, ch16 those of 16 "
      "and 10, ch22 those of 16 and 22, and ch19 a ring of two ranks [tiled, on a GPU the "
      "fastest]");
  cli.choice(
      "--device", request.device, {"cpu", "gpu", "emulator"},
      "where the model is, which on gpu and emulator is in bf16, with its weights in fp32 too "
      "[cpu]");
  number("--block", request.attention.block, kBlock, "queries and keys of a tile");
  number("--steps", request.steps, kSteps, "number of steps, including those before a resumed run");
  number("--seed", request.seed, kSeed, "seed of the first weights and of the data's order");
  cli.input_file("--text", request.text, "file in UTF-8 to learn from [this tutorial's lessons]");
  cli.output_file("--checkpoint", request.checkpoint,
                  "file to save to, every 250 steps and at the end");
  cli.flag("--resume", request.resume, "continue from the checkpoint");
  cli.output_file("--json", request.json, "write the report to this file");
  number("--context", recipe.model.context, kContext, "characters that a guess may look at");
  number("--layers", recipe.model.layers, kLayers, "blocks of attention and MLP");
  number("--heads", recipe.model.heads, kHeads, "heads of attention");
  number("--channels", recipe.model.channels, kChannels,
         "numbers per token, a multiple of the heads");
  number("--batch", recipe.batch, kBatch, "sequences in a step");
  cli.real("--learning-rate", recipe.learning_rate,
           "learning rate after the first 20 steps [0.002]");
  cli.integer("--memory-limit", request.memory_limit, 1, std::numeric_limits<int64_t>::max(),
              "bytes that attention may allocate");
  cli.texts("--break", request.breaks, "switch one load-bearing line off (repeatable)");
}

int train(const TrainRequest& asked, const Cli& given, Invocation& call) {
  TrainRequest request = asked;
  if (request.resume && request.checkpoint.empty()) {
    throw InputError("--resume: expected --checkpoint FILE to continue from");
  }
  if (!(request.recipe.learning_rate > 0)) {
    throw InputError("--learning-rate: expected a number above 0");
  }
  if (request.device != "cpu" && given.given("--memory-limit")) {
    throw InputError("--memory-limit: accepted with --device cpu");
  }
  const std::string what = request.text.empty() ? "the lessons" : request.text;
  const std::string bytes = request.text.empty() ? lessons() : read_file(request.text);
  const std::u32string text = decode_utf8(without_byte_order_mark(bytes, what), what);
  TrainingState state = first_state(request, given, bytes, text);
  const std::vector<int32_t> tokens = Vocabulary(state.vocabulary).tokens(text, what);
  const Config& model = state.recipe.model;

  const AttentionShape shape = shape_of(state.recipe);
  request.attention = choose_attention(request, given, shape.dim);
  const AttentionChoice& attention = request.attention;
  check_attention(attention, shape);
  const double needed = static_cast<double>(attention_bytes(attention, shape, model.layers));
  std::unique_ptr<DeviceGpt> device_gpt;
  if (request.device != "cpu") {
    device_gpt = make_device_gpt(request, state.recipe);
  } else if (!(needed < 0.9 * memory_bytes())) {
    too_much_memory(request, state);
  }

  if (call.silent) {
    const GradientCheck check = check_gradients(state, tokens, attention);
    call.result = result_of(check);
    return check.passed ? kAgreed : kDisagreed;
  }
  std::cout << call.heading << what << ": " << text.size() << " characters, " << model.vocabulary
            << " different; ln(" << model.vocabulary
            << ") = " << fixed(std::log(static_cast<double>(model.vocabulary)), 3) << "\n"
            << parameter_count(model) << " parameters, " << model.layers << " layers, "
            << model.heads << " heads of " << model.channels / model.heads << ", context "
            << model.context << ", batch " << state.recipe.batch << (device_gpt ? ",\n" : ", ")
            << attention.name << " attention"
            << (device_gpt ? ", all of it on the " + request.device : "") << "\n";
  try {
    std::optional<GradientCheck> check;
    if (model.context <= kLongestChecked && state.steps() < request.steps &&
        static_cast<double>(parameter_count(model) * shape.rows()) < kMostChecked) {
      check = device_gpt ? check_gradients(state, tokens, *device_gpt)
                         : check_gradients(state, tokens, attention);
      call.result = result_of(*check);
      std::cout << "gradients of step " << state.steps() + 1
                << (check->passed ? " agree with" : " are NOT those of")
                << " plain attention in float64: relative error ";
      std::cout << fa::text("%.0e", check->relative_error)
                << (check->passed ? "" : ", " + check->worst) << "\n";
    }
    std::vector<double> step_ms;
    const MemoryProbe probe(request.memory_limit > 0 ? request.memory_limit
                                                     : std::numeric_limits<int64_t>::max());
    const int64_t device_bytes = device_gpt ? device_gpt->attention_bytes() : 0;
    std::optional<Trainer> trainer;
    if (device_gpt) {
      trainer.emplace(state, tokens, std::move(device_gpt));
    } else {
      trainer.emplace(state, tokens, attention);
    }
    const auto save = [&] {
      trainer->fetch();
      save_checkpoint(request.checkpoint, state);
    };
    Progress progress(state, request.steps);
    while (state.steps() < request.steps) {
      step_ms.push_back(time_ms([&] { trainer->step(); }));
      progress.after_step();
      if (!request.checkpoint.empty() && state.steps() % kStepsBetweenCheckpoints == 0) save();
    }
    const double seconds = progress.seconds();
    if (!request.checkpoint.empty()) save();
    const int64_t bytes_needed = request.device == "cpu" ? probe.peak_bytes() : device_bytes;
    if (!times_hidden()) {  // the speed depends on the number of threads
      std::cout << "attention allocated " << format_bytes(static_cast<double>(bytes_needed))
                << "\n";
    }
    call.json = request.json;
    call.report = shared_json(report(request, state, check, bytes_needed, step_ms, seconds));
    return check && !check->passed ? kDisagreed : kAgreed;
  } catch (const MemoryLimitExceeded&) {
    too_much_memory(request, state);
  } catch (const std::bad_alloc&) {
    too_much_memory(request, state);
  }
}

}  // namespace fa::ch20
