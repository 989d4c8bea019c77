// Tiled attention on the CPU, from the formula to FlashAttention, one idea at a time.
//
//   ch02_tiled_cpu                                   the chapter as a story
//   ch02_tiled_cpu --algorithm tiled --causal --trace
//   ch02_tiled_cpu ladder | walkthrough | loop-order | traffic | overflow | memory | …

#include "breaks/ch02_tiled_cpu.hpp"
#include "broken.hpp"
#include "commands.hpp"
#include "run.hpp"

namespace ch02 {

const fa::Program PROGRAM{.name = "ch02_tiled_cpu",
                          .about = "Chapter 02: tiled attention on the CPU",
                          .default_shape = {1, 4, 512, 512, 64},
                          .breaks = kBreaks,
                          .dtypes = {fa::Dtype::f32, fa::Dtype::f16, fa::Dtype::bf16}};

int attention(fa::Invocation& call) {
  if (call.argc == 1) return story();
  Flags flags;
  CommandOptions command;
  const fa::Arguments args = fa::parse(call, PROGRAM, [&](fa::Cli& cli) {
    flags.declare(cli);
    add_commands(cli, command);
  });
  if (!args.command.empty()) return run_command(args.command, command);
  const auto validate_all = [&](const fa::Problem& problem) {
    refuse_unused_options(args, flags);
    validate(problem, flags.options());
  };
  fa::Tensors tensors = fa::make_tensors(args, validate_all, [&](fa::Problem& problem) {
    if (flags.modifier == "causal") problem.causal = true;
    set_reference_modifier(problem, flags.options().modifier);
  });
  const fa::Run result = run(tensors, args, flags);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, result, verdict);
}

}  // namespace ch02

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH02_BREAKS, ch02::attention);
}
