// The backward pass computes dQ, dK and dV from Q, K, V and dO, without a score matrix in memory.
//
//   ch10_backward --shape 1,2,256,256,64 --causal --profile
//   ch10_backward --shape 1,2,256,256,64 --causal --algorithm columns --profile
//   ch10_backward --shape 1,1,4,4,8 --algorithm rows --trace
//   ch10_backward chain | schedules | memory | elements | projections

#include "breaks.hpp"
#include "breaks/ch10_backward.hpp"
#include "commands.hpp"
#include "common/backward.hpp"
#include "run.hpp"

namespace fa::ch10 {
namespace {

const Program kProgram{.name = "ch10_backward",
                       .about = "Chapter 10: the backward pass",
                       .default_shape = {1, 4, 256, 256, 64},
                       .breaks = {std::begin(BACKWARD_BREAKS), std::end(BACKWARD_BREAKS)},
                       .dtypes = {Dtype::bf16, Dtype::f16, Dtype::f32},
                       .features = CAUSAL | KV_HEADS | STRIDES | SINKS,
                       .passes = BACKWARD,
                       .has_device = true};

int backward(Invocation& call) {
  Flags flags;
  CommandOptions command;
  const Arguments args = parse(call, kProgram, [&](Cli& cli) {
    flags.declare(cli);
    add_commands(cli, command);
  });
  if (!args.command.empty()) return run_command(args.command, command);
  fa::Tensors tensors =
      make_tensors(args, [&](const Problem& problem) { check_options(problem, args, flags); });
  const Run run =
      cpu_option(args) ? run_on_cpu(tensors, args, flags) : run_on_device(tensors, args, flags);
  const Verdict verdict = check_backward(tensors, args.seed);
  return report(args, tensors, run, verdict);
}

}  // namespace
}  // namespace fa::ch10

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH10_BREAKS, fa::ch10::backward);
}
