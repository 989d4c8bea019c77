// The backward pass: dQ, dK and dV from Q, K, V and dO, without a score matrix in memory.
//
//   ch10_backward --shape 1,2,256,256,64 --causal --profile
//   ch10_backward --shape 1,2,256,256,64 --causal --algorithm columns --profile
//   ch10_backward --shape 1,1,4,4,8 --algorithm rows --trace
//   ch10_backward chain | schedules | memory | elements | projections

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "breaks/ch10_backward.hpp"
#include "chapter.hpp"
#include "commands.hpp"
#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/kernel_program.hpp"
#include "common/timer.hpp"
#include "cpu_backward.hpp"
#include "report.hpp"

namespace fa::ch10 {
namespace {

constexpr Shape kDefaultShape{1, 4, 256, 256, 64};
constexpr const char* kDesigns[] = {"auto", "two-kernels", "one-kernel", "two-roles"};
constexpr const char* kCpuOptions[] = {"--algorithm", "--block-q", "--block-kv",
                                       "--d-from",    "--trace",   "--memory-limit"};

struct Flags {
  std::string algorithm = "tiled", d_from = "o", design = "auto";
  int64_t block_q = 0, block_kv = 0, memory_limit = kNoLimit;
  bool trace = false, deterministic = false;
  CommandOptions command;
  std::function<bool(const char* option)> given;
};
Flags flags;

void add_options(Cli& cli) {
  cli.choice("--design", flags.design, {std::begin(kDesigns), std::end(kDesigns)},
             "of the kernels [auto: one-kernel up to head size 64 in bf16, otherwise two-roles]");
  cli.flag("--deterministic", flags.deterministic, "the kernels add to dQ in one order");
  std::vector<std::string> names;
  for (const AlgorithmName& one : kAlgorithms) names.push_back(one.name);
  cli.choice("--algorithm", flags.algorithm, names, "on the CPU instead: in which order [tiled]");
  cli.integer("--block-q", flags.block_q, 1, 1024, "queries in a tile [64; rows and columns: 1]");
  cli.integer("--block-kv", flags.block_kv, 1, 1024, "keys in a tile [64; rows and columns: 1]");
  cli.choice("--d-from", flags.d_from, {"o", "p"},
             "D = rowsum(dO o O), or rowsum(P o dP) in a pass of its own over K and V [o]");
  cli.flag("--trace", flags.trace, "print what each step loads, adds to and stores");
  cli.integer("--memory-limit", flags.memory_limit, 0, kNoLimit,
              "bytes the algorithm may allocate beside inputs and outputs");
  add_commands(cli, flags.command);
  flags.given = [&cli](const char* option) { return cli.given(option); };
}

// Returns the option for the CPU that was given, or null if the kernels run.
const char* cpu_option() {
  const auto* const option =
      std::find_if(std::begin(kCpuOptions), std::end(kCpuOptions), flags.given);
  return option == std::end(kCpuOptions) ? nullptr : *option;
}

Options chosen_options() {
  Options options;
  for (const AlgorithmName& one : kAlgorithms) {
    if (flags.algorithm == one.name) options.algorithm = one.algorithm;
  }
  options.tiling = named(options.algorithm).tiling;
  if (flags.given("--block-q")) options.tiling.block_q = flags.block_q;
  if (flags.given("--block-kv")) options.tiling.block_kv = flags.block_kv;
  options.d_from = flags.d_from == "p" ? DFrom::p : DFrom::o;
  options.memory_limit = flags.memory_limit;
  options.trace = flags.trace;
  return options;
}

void check_options(const Problem& problem) {
  const char* const cpu = cpu_option();
  if (cpu == nullptr) {
    if (problem.dtype == Dtype::f32) {
      throw InputError("--dtype f32: the kernels take 16 bits; --algorithm tiled runs on the CPU");
    }
    return ::ch10::check_shape(problem.shape);
  }
  for (const char* const kernels : {"--design", "--deterministic", "--device", "--schedule-seed",
                                    "--events", "--i-know", "--layout"}) {
    if (flags.given(kernels)) {
      throw InputError(std::string(kernels) + " is the kernels', " + cpu + " the CPU's: give one");
    }
  }
  const Options options = chosen_options();
  if (options.algorithm == Algorithm::naive && flags.given("--d-from")) {
    throw InputError("--d-from: --algorithm naive has P and dP in memory, and takes D from them");
  }
  validate(problem, options);
}

Outcome on_the_cpu(const Problem& problem, const Request& request,
                   std::span<std::vector<float>> outputs) {
  if (request.breaks & (LATE_ZERO | UNORDERED_DQ)) {
    throw InputError("--break late-zero and unordered-dq are the kernels', " +
                     std::string(cpu_option()) + " is the CPU's: give one");
  }
  Options options = chosen_options();
  options.breaks = request.breaks;
  validate(problem, options);
  Outcome outcome;
  Report report;
  outcome.time_ms = time_ms(
      [&] { report = differentiate(problem, options, outputs[0], outputs[1], outputs[2]); });
  outcome.title = std::string(named(options.algorithm).name) + ", block " +
                  std::to_string(options.tiling.block_q) + " x " +
                  std::to_string(options.tiling.block_kv);
  if (options.trace) outcome.notes += trace_table(report.traffic);
  if (request.profile) outcome.notes += profile_table(report);
  outcome.profile = shared_json(as_json(report));
  return outcome;
}

// Returns a number from 1 to 3, as in kDesigns.
int chosen_design(const Problem& problem) {
  for (int design = 1; design <= 3; ++design)
    if (flags.design == kDesigns[design]) return design;
  return ::ch10::FASTEST[problem.dtype == Dtype::f16][problem.shape.dim > 64];
}

KernelRun kernel_run(const Problem& problem, const Request& request) {
  return {request.breaks,
          {chosen_design(problem), flags.deterministic ? 1 : 0},
          request.layout == "blhd"};
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
        run(kernel_run(problem_, request)),
        o(problem_.shape.q_elements()),
        lse(problem_.shape.rows()),
        outputs(outputs_) {}

  BackwardTensors tensors() { return {o, lse, outputs[0], outputs[1], outputs[2], &workspace}; }
  double on_gpu(int runs) {
    forward_on_gpu(ch09::CHAPTER, problem, o, lse);
    return backward_on_gpu(::ch10::CHAPTER, problem, tensors(), run, runs);
  }
  EmulatorRun on_emulator(const simt::Config& config) {
    simt::Config forward;
    forward.hazards = false;
    forward_on_emulator(ch09::CHAPTER, problem, o, lse, {}, forward);
    return backward_on_emulator(::ch10::CHAPTER, problem, tensors(), run, config);
  }
};

Outcome by_kernels(const Problem& problem, const Request& request,
                   std::span<std::vector<float>> outputs) {
  if (request.breaks & BF16_DQ) {
    throw InputError("--break bf16-dq is the CPU's: give --algorithm tiled, too");
  }
  Kernels kernels(problem, request, outputs);
  Outcome outcome = run_kernels(
      ::ch10::CHAPTER, request,
      {.on_gpu = [&] { return kernels.on_gpu(1); },
       .on_emulator = [&](const simt::Config& config) { return kernels.on_emulator(config); }});
  outcome.unrounded = std::move(kernels.workspace);
  const int design = kernels.run.options[0];
  outcome.title = std::string(kDesigns[design]) + (flags.deterministic ? ", deterministic" : "");
  if (!outcome.profile) outcome.profile = shared_json({});
  (*outcome.profile)["products"] = design == ::ch10::TWO_KERNELS ? 7 : 5;
  return outcome;
}

Outcome backward(const Problem& problem, const Request& request,
                 std::span<std::vector<float>> outputs) {
  return cpu_option() != nullptr ? on_the_cpu(problem, request, outputs)
                                 : by_kernels(problem, request, outputs);
}

void bench(const Problem& problem, const Request& request) {
  if (cpu_option() != nullptr || !wants_gpu(::ch10::CHAPTER, request)) {
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
  const double tflops = backward_operation().flops(large) / ms * 1e-9;
  const double limit = gpu_mma_limit_tflops();
  char line[200];
  std::snprintf(line, sizeof line,
                "  bench      shape %s: %.3f ms, %.1f TFLOP/s, %.1f %% of the %.1f that mma.sync "
                "alone reaches here\n",
                to_string(large.shape).c_str(), ms, tflops, 100 * tflops / limit, limit);
  std::cout << line;
}

}  // namespace
}  // namespace fa::ch10

int main(int argc, char** argv) {
  using namespace fa::ch10;
  fa::AttentionProgram program;
  program.name = "ch10_backward";
  program.about = "Chapter 10: the backward pass";
  program.default_shape = kDefaultShape;
  program.breaks = {std::begin(fa::BACKWARD_BREAKS), std::end(fa::BACKWARD_BREAKS)};
  program.demos = CH10_BREAKS;
  program.dtypes = {fa::Dtype::bf16, fa::Dtype::f16, fa::Dtype::f32};
  program.features = fa::CAUSAL | fa::KV_HEADS | fa::STRIDES;
  program.has_device = true;
  program.operation = &fa::backward_operation();
  program.add_options = add_options;
  program.validate = check_options;
  program.run = backward;
  program.bench = bench;
  program.command = [](const std::string& command) { return run_command(command, flags.command); };
  return fa::run_attention_program(program, argc, argv);
}
