// Chapter 20 trains a GPT on characters with this project's attention.
//
//   ch20_train_a_gpt                                    the chapter as a story: half a minute
//   ch20_train_a_gpt gradients                          each parameter against central differences
//   ch20_train_a_gpt train --steps 400 --checkpoint F   learns from these lessons
//   ch20_train_a_gpt train --attention plain --json F   the same with P in memory
//   ch20_train_a_gpt generate --checkpoint F --prompt "The idea: "
#include <iostream>

#include "breaks.hpp"
#include "breaks/ch20_train_a_gpt.hpp"
#include "checkpoint.hpp"
#include "common/cli.hpp"
#include "common/error.hpp"
#include "generation.hpp"
#include "gradients_command.hpp"
#include "limits.hpp"
#include "story.hpp"
#include "train_command.hpp"

namespace fa::ch20 {
namespace {

int run_command(Invocation& call) {
  Cli cli("ch20_train_a_gpt", "A small GPT, trained with plain or tiled attention.");
  bool list = false, bench = false;
  cli.flag("--list-breaks", list, "print what --break accepts");
  cli.flag("--bench", bench, "time and memory of a step against the context");
  std::vector<std::string> breaks;
  cli.texts("--break", breaks, "switch one load-bearing line off, and run the input that shows it");

  TrainRequest request;
  bool list_here = false;
  Cli& train_cli = cli.command("train", "train a model on a text");
  declare(train_cli, request);
  train_cli.flag("--list-breaks", list_here, "print what --break accepts");

  std::string checkpoint, prompt;
  int64_t tokens = 200, seed = 0;
  double temperature = 0.8;
  Cli& generate_cli = cli.command("generate", "let a trained model write");
  generate_cli.input_file("--checkpoint", checkpoint, "the trained model");
  generate_cli.text(
      "--prompt", prompt,
      "the text to continue [a new line, or the first character of the training text]");
  generate_cli.integer("--tokens", tokens, 0, 1'000'000, "characters to write [200]");
  generate_cli.integer("--seed", seed, kSeed.min, kSeed.max, "seed of the choices [0]");
  generate_cli.real("--temperature", temperature,
                    "below 1, likely characters are chosen more often [0.8]");

  AttentionChoice gradients{"tiled", 4};
  Cli& gradients_cli =
      cli.command("gradients", "compare a tiny model's gradients with central differences");
  gradients_cli.choice("--attention", gradients.name, {"plain", "tiled"},
                       "attention of the model [tiled]");
  gradients_cli.texts("--break", breaks, "switch one load-bearing line off (repeatable)");

  cli.optional_command();
  const std::string command = cli.parse(call.argc, call.argv);
  if (list || list_here) {
    std::cout << list_breaks(CH20_BREAKS);
    return kAgreed;
  }
  if (bench) return run_bench();
  if (command == "train") return train(request, train_cli, call);
  if (command == "gradients") {
    gradients.breaks = parse_breaks(breaks, BREAKS);
    return show_gradients(gradients);
  }
  if (command == "generate") {
    if (checkpoint.empty()) throw InputError("generate: expected --checkpoint FILE");
    if (!(temperature > 0)) throw InputError("--temperature: expected a number above 0");
    const TrainingState trained = load_checkpoint(checkpoint);
    if (!generate_cli.given("--prompt")) prompt = default_prompt(trained);
    std::cout << generate(trained, prompt, tokens, temperature, seed) << "\n";
    return kAgreed;
  }
  return tell_story();
}

}  // namespace
}  // namespace fa::ch20

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH20_BREAKS, fa::ch20::run_command);
}
