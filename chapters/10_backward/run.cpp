#include "run.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "chapter.hpp"
#include "common/error.hpp"
#include "common/kernels/program.hpp"
#include "common/timer.hpp"
#include "report.hpp"

namespace fa::ch10 {
namespace {

constexpr const char* kDesigns[] = {"auto", "two-kernels", "one-kernel", "two-roles"};
constexpr const char* kCpuOptions[] = {"--algorithm", "--block-q", "--block-kv",
                                       "--d-from",    "--trace",   "--memory-limit"};

Options chosen_options(const Arguments& args, const Flags& flags) {
  Options options;
  for (const AlgorithmName& one : kAlgorithms) {
    if (flags.algorithm == one.name) options.algorithm = one.algorithm;
  }
  options.tiling = named(options.algorithm).tiling;
  if (args.given("--block-q")) options.tiling.block_q = flags.block_q;
  if (args.given("--block-kv")) options.tiling.block_kv = flags.block_kv;
  options.d_from = flags.d_from == "p" ? DFrom::p : DFrom::o;
  options.memory_limit = flags.memory_limit;
  options.trace = flags.trace;
  return options;
}

// Returns a number from 1 to 3, as in kDesigns.
int chosen_design(const Problem& problem, const Flags& flags) {
  for (int design = 1; design <= 3; ++design)
    if (flags.design == kDesigns[design]) return design;
  return ::ch10::FASTEST[problem.dtype == Dtype::f16][problem.shape.dim > 64];
}

}  // namespace

void Flags::declare(Cli& cli) {
  cli.choice("--design", design, {std::begin(kDesigns), std::end(kDesigns)},
             "design of the kernels [auto: one-kernel up to head size 64 in bf16, else two-roles]");
  cli.flag("--deterministic", deterministic, "the kernels add to dQ in one order");
  std::vector<std::string> names;
  for (const AlgorithmName& one : kAlgorithms) names.push_back(one.name);
  cli.choice("--algorithm", algorithm, names, "on the CPU instead: in which order [tiled]");
  cli.integer("--block-q", block_q, 1, 1024, "queries in a tile [64; rows and columns: 1]");
  cli.integer("--block-kv", block_kv, 1, 1024, "keys in a tile [64; rows and columns: 1]");
  cli.choice("--d-from", d_from, {"o", "p"},
             "D = rowsum(dO o O), or rowsum(P o dP) in a separate pass over K and V [o]");
  cli.flag("--trace", trace, "print what each step loads, adds to and stores");
  cli.integer("--memory-limit", memory_limit, 0, kNoLimit,
              "bytes the algorithm may allocate besides inputs and outputs");
}

const char* cpu_option(const Arguments& args) {
  const auto* const option = std::find_if(std::begin(kCpuOptions), std::end(kCpuOptions),
                                          [&](const char* one) { return args.given(one); });
  return option == std::end(kCpuOptions) ? nullptr : *option;
}

void check_options(const Problem& problem, const Arguments& args, const Flags& flags) {
  const char* const cpu = cpu_option(args);
  if (cpu == nullptr) {
    if (problem.dtype == Dtype::f32) {
      throw InputError("--dtype f32: the kernels take 16 bits; --algorithm tiled runs on the CPU");
    }
    return ::ch10::check_shape(problem.shape);
  }
  for (const char* const kernels : {"--design", "--deterministic", "--device", "--schedule-seed",
                                    "--events", "--allow-undefined", "--layout"}) {
    if (args.given(kernels)) {
      throw InputError(std::string(kernels) + " is the kernels', " + cpu + " the CPU's: give one");
    }
  }
  if (args.given("--sinks")) {
    throw InputError(std::string("--sinks is the kernels', ") + cpu + " the CPU's: give one");
  }
  const Options options = chosen_options(args, flags);
  if (options.algorithm == Algorithm::naive && args.given("--d-from")) {
    throw InputError("--d-from: --algorithm naive has P and dP in memory, and takes D from them");
  }
  validate(problem, options);
}

Run run_on_cpu(fa::Tensors& tensors, const Arguments& args, const Flags& flags) {
  if (args.break_bits & (LATE_ZERO | UNORDERED_DQ)) {
    throw InputError("--break late-zero and unordered-dq are the kernels', " +
                     std::string(cpu_option(args)) + " is the CPU's: give one");
  }
  Options options = chosen_options(args, flags);
  options.breaks = args.break_bits;
  validate(tensors, options);
  Run run;
  Report report;
  run.time_ms = time_ms(
      [&] { report = differentiate(tensors, options, tensors.dq, tensors.dk, tensors.dv); });
  run.title = std::string(named(options.algorithm).name) + ", block " +
              std::to_string(options.tiling.block_q) + " x " +
              std::to_string(options.tiling.block_kv);
  if (options.trace) run.notes += trace_table(report.traffic);
  if (args.profile) run.notes += profile_table(report);
  run.profile = shared_json(as_json(report));
  run.bench = [] {
    std::cout << "  bench      one run is timed above; the kernels on a GPU have more to measure\n";
  };
  return run;
}

Run run_on_device(fa::Tensors& tensors, const Arguments& args, const Flags& flags) {
  if (args.break_bits & BF16_DQ) {
    throw InputError("--break bf16-dq is the CPU's: give --algorithm tiled, too");
  }
  const int design = chosen_design(tensors, flags);
  Run run =
      run_backward(::ch10::KERNEL, ::ch09::KERNEL, tensors, args, {design, flags.deterministic});
  run.title = std::string(kDesigns[design]) + (flags.deterministic ? ", deterministic" : "");
  if (!run.profile) run.profile = shared_json({});
  (*run.profile)["products"] = design == ::ch10::TWO_KERNELS ? 7 : 5;
  return run;
}

}  // namespace fa::ch10
