// The backward pass on Hopper computes dQ, dK and dV from Q, K, V and dO.
//
//   ch22_backward_on_hopper --shape 1,2,256,256,128 --causal --profile
//   ch22_backward_on_hopper --shape 1,1,256,512,64 --deterministic --schedule-seed 1

#include "breaks/ch22_backward_on_hopper.hpp"
#include "chapter.hpp"
#include "common/backward.hpp"
#include "common/kernels/program.hpp"

namespace ch22 {

fa::Program program() {
  fa::Program program =
      fa::program_of(KERNEL, "Chapter 22: the backward pass on Hopper", {1, 2, 256, 256, 128});
  program.features = fa::CAUSAL | fa::WINDOW | fa::KV_HEADS | fa::STRIDES | fa::SINKS |
                     fa::PACKED;  // O and LSE come from chapter 09
  program.passes = fa::BACKWARD;
  program.options = KERNEL.options.first(1);
  return program;
}

int backward(fa::Invocation& call) {
  bool deterministic = false;
  const fa::Arguments args = fa::parse(call, program(), [&](fa::Cli& cli) {
    cli.flag("--deterministic", deterministic, OPTIONS[1].about);
  });
  fa::Tensors tensors = fa::make_tensors(args);
  fa::Run run =
      fa::run_backward(KERNEL, ch09::KERNEL, tensors, args, {args.options[0], deterministic});
  run.title = deterministic ? "two consumers, deterministic" : "two consumers";
  const fa::Verdict verdict = fa::check_backward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch22

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH22_BREAKS, ch22::backward);
}
