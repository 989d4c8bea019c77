#include "story.hpp"

#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "checkpoint.hpp"
#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/memory.hpp"
#include "common/timer.hpp"
#include "device_gpt.hpp"
#include "generation.hpp"
#include "gradients_command.hpp"
#include "train_command.hpp"

namespace fa::ch20 {
namespace {

constexpr const char* kPrompt = "The idea: ";
constexpr int kStorySteps = 500;  // a quarter of a minute, enough for words
constexpr int kMoreSteps = 3000;  // a minute and a half, enough for phrases

}  // namespace

int tell_story() {
  std::cout << "A tiny GPT in float64. Does every gradient agree with the change of the loss\n"
               "when a parameter moves a little?\n\n";
  int code = show_gradients({"tiled", 4});
  std::cout << "\nNow a larger one, in fp32, learns to write like these lessons: " << kStorySteps
            << " steps,\nabout 20 seconds.\n\n";
  TrainRequest request;
  request.steps = kStorySteps;
  request.checkpoint = (std::filesystem::temp_directory_path() /
                        ("ch20_gpt_" + std::to_string(getuid()) + ".checkpoint"))
                           .string();
  const Cli nothing_given("ch20_train_a_gpt", "");
  Invocation call;
  code = std::max(code, train(request, nothing_given, call));
  std::cout << "\nThe model writes one character at a time, from a cache in pages (chapter 11):\n\n"
            << generate(load_checkpoint(request.checkpoint), kPrompt, 400, 0.7, 1)
            << "\n\nThe checkpoint is " << request.checkpoint << ". To continue to step "
            << kMoreSteps << ",\na minute and a half:\n"
            << "  build/bin/ch20_train_a_gpt train --checkpoint " << request.checkpoint
            << " --resume --steps " << kMoreSteps << "\n"
            << "  build/bin/ch20_train_a_gpt generate --checkpoint " << request.checkpoint
            << " --prompt \"" << kPrompt << "\"\n";
  return code;
}

int run_bench() {
  std::printf("one step of 1 layer, 2 heads of 16, batch 1\n%8s %14s %12s %14s %12s\n", "context",
              "plain", "ms", "tiled", "ms");
  const std::string bytes = lessons();
  const std::u32string text = decode_utf8(bytes, "the lessons");
  const Vocabulary vocabulary = Vocabulary::of(text);
  const std::vector<int32_t> tokens = vocabulary.tokens(text, "the lessons");
  for (const int64_t context : {512, 1024, 2048, 4096}) {
    std::printf("%8lld", static_cast<long long>(context));
    for (const char* name : {"plain", "tiled"}) {
      Recipe recipe{{0, context, 1, 2, 32}, 1};
      TrainingState state = start_training(recipe, vocabulary, text, 0);
      const MemoryProbe probe;
      Trainer trainer(state, tokens, {name, 64});
      const double ms = median_ms(3, [&] { trainer.step(); });
      std::printf(" %14s %12.1f", format_bytes(static_cast<double>(probe.peak_bytes())).c_str(),
                  ms);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  const AttentionKernels kernels = kernels_of("ch22");
  const std::string why = gpu_problem(kernels);
  if (!why.empty()) {
    std::printf("\nall of it on a GPU: not measured, %s\n", why.c_str());
    return kAgreed;
  }
  TrainingState state = start_training({{0, 1024, 14, 12, 768}, 32}, vocabulary, text, 0);
  Trainer trainer(state, tokens, make_gpu_gpt(state.recipe, kernels));
  const double ms = median_ms(
      10, [&] { trainer.step(); }, 3);
  std::printf("\nall of it on a GPU, %lld parameters, 32 x 1024 tokens: %.1f ms, %.0f tokens/s\n",
              static_cast<long long>(std::ssize(state.weights)), ms, 1000 * 32 * 1024 / ms);
  return kAgreed;
}

}  // namespace fa::ch20
