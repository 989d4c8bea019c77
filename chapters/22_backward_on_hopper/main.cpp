// The backward pass on Hopper: dQ, dK and dV from Q, K, V and dO.
//
//   ch22_backward_on_hopper --shape 1,2,256,256,128 --causal --profile
//   ch22_backward_on_hopper --shape 1,1,256,512,64 --deterministic --schedule-seed 1

#include <cstdio>
#include <iostream>

#include "breaks/ch22_backward_on_hopper.hpp"
#include "chapter.hpp"
#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/kernel_program.hpp"

namespace fa::ch22 {
namespace {

constexpr Shape kDefaultShape{1, 2, 256, 256, 128};

int64_t heads_at_once = 0;
bool deterministic = false;

void add_options(Cli& cli) {
  const KernelOption& heads = ::ch22::OPTIONS[0];
  cli.integer(heads.name, heads_at_once, heads.least, heads.most, heads.about);
  cli.flag("--deterministic", deterministic, ::ch22::OPTIONS[1].about);
}

// Computes O and LSE with chapter 09's kernel, and the backward pass on the same device. Only the
// backward pass is timed and counted.
struct Kernels {
  const Problem& problem;
  KernelRun run;
  std::vector<float> o, lse, workspace;
  std::span<std::vector<float>> outputs;

  Kernels(const Problem& problem_, const Request& request, std::span<std::vector<float>> outputs_)
      : problem(problem_),
        run{request.breaks,
            {static_cast<int>(heads_at_once), deterministic ? 1 : 0},
            request.layout == "blhd"},
        o(problem_.shape.q_elements()),
        lse(problem_.shape.rows()),
        outputs(outputs_) {}

  BackwardTensors tensors() { return {o, lse, outputs[0], outputs[1], outputs[2], &workspace}; }
  double on_gpu(int runs) {
    forward_on_gpu(ch09::CHAPTER, problem, o, lse);
    return backward_on_gpu(::ch22::CHAPTER, problem, tensors(), run, runs);
  }
  EmulatorRun on_emulator(const simt::Config& config) {
    simt::Config forward;
    forward.hazards = false;
    forward_on_emulator(ch09::CHAPTER, problem, o, lse, {}, forward);
    return backward_on_emulator(::ch22::CHAPTER, problem, tensors(), run, config);
  }
};

Outcome backward(const Problem& problem, const Request& request,
                 std::span<std::vector<float>> outputs) {
  Kernels kernels(problem, request, outputs);
  Outcome outcome = run_kernels(
      ::ch22::CHAPTER, request,
      {.on_gpu = [&] { return kernels.on_gpu(1); },
       .on_emulator = [&](const simt::Config& config) { return kernels.on_emulator(config); }});
  outcome.unrounded = std::move(kernels.workspace);
  outcome.title = deterministic ? "two consumers, deterministic" : "two consumers";
  return outcome;
}

void bench(const Problem& problem, const Request& request) {
  if (!wants_gpu(::ch22::CHAPTER, request)) {
    std::cout << "  bench      one run is timed above; the kernels on a GPU have more to measure\n";
    return;
  }
  // The default shape is meant for reading counters and is too small to fill a GPU.
  Problem large = problem;
  if (problem.shape == kDefaultShape) {
    large = random_problem({2, 16, 8192, 8192, 128}, problem.dtype, 0);
    large.causal = problem.causal;
    large.more = {random_values(like_q(large), problem.dtype, 0, 0)};
  }
  std::vector<float> outputs[] = {std::vector<float>(large.shape.q_elements()),
                                  std::vector<float>(large.kv_elements()),
                                  std::vector<float>(large.kv_elements())};
  const double ms = Kernels(large, request, outputs).on_gpu(20);
  char line[200];
  std::snprintf(line, sizeof line, "  bench      shape %s: %.3f ms, %.1f TFLOP/s\n",
                to_string(large.shape).c_str(), ms, backward_operation().flops(large) / ms * 1e-9);
  std::cout << line;
}

}  // namespace
}  // namespace fa::ch22

int main(int argc, char** argv) {
  using namespace fa::ch22;
  fa::AttentionProgram program;
  program.name = "ch22_backward_on_hopper";
  program.about = "Chapter 22: the backward pass on Hopper";
  program.default_shape = kDefaultShape;
  program.breaks = fa::breaks_of(::ch22::CHAPTER);
  program.demos = CH22_BREAKS;
  program.dtypes = {fa::Dtype::bf16, fa::Dtype::f16};
  program.features = fa::CAUSAL | fa::WINDOW | fa::KV_HEADS | fa::STRIDES;
  program.has_device = true;
  program.operation = &fa::backward_operation();
  program.add_options = add_options;
  program.validate = [](const fa::Problem& problem) { ::ch22::CHAPTER.check_shape(problem.shape); };
  program.run = backward;
  program.bench = bench;
  return fa::run_attention_program(program, argc, argv);
}
