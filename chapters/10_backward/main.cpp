// The backward pass: dQ, dK and dV from Q, K, V and dO, without a score matrix in memory.
//
//   ch10_backward --shape 1,2,256,256,64 --causal --algorithm columns --profile
//   ch10_backward --shape 1,1,4,4,8 --algorithm rows --trace
//   ch10_backward chain | schedules | memory | projections

#include <functional>

#include "commands.hpp"
#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"
#include "cpu_backward.hpp"
#include "report.hpp"

namespace fa::ch10 {
namespace {

struct Flags {
  std::string algorithm = "tiled", d_from = "o";
  int64_t block_q = 0, block_kv = 0, memory_limit = kNoLimit;
  bool trace = false;
  CommandOptions command;
  std::function<bool(const char* option)> given;
};
Flags flags;

void add_options(Cli& cli) {
  std::vector<std::string> names;
  for (const AlgorithmName& one : kAlgorithms) names.push_back(one.name);
  cli.choice("--algorithm", flags.algorithm, names, "on the CPU: in which order [tiled]");
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
  const Options options = chosen_options();
  if (options.algorithm == Algorithm::naive && flags.given("--d-from")) {
    throw InputError("--d-from: --algorithm naive has P and dP in memory, and takes D from them");
  }
  validate(problem, options);
}

Outcome backward(const Problem& problem, const Request& request,
                 std::span<std::vector<float>> outputs) {
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
  outcome.profile = as_json(report);
  return outcome;
}

}  // namespace
}  // namespace fa::ch10

int main(int argc, char** argv) {
  using namespace fa::ch10;
  fa::AttentionProgram program;
  program.name = "ch10_backward";
  program.about = "Chapter 10: the backward pass";
  program.default_shape = {1, 4, 256, 256, 64};
  program.breaks = kBreaks;
  program.dtypes = {fa::Dtype::bf16, fa::Dtype::f16, fa::Dtype::f32};
  program.features = fa::CAUSAL | fa::KV_HEADS;
  program.operation = &fa::backward_operation();
  program.add_options = add_options;
  program.validate = check_options;
  program.run = backward;
  program.command = [](const std::string& command) { return run_command(command, flags.command); };
  return fa::run_attention_program(program, argc, argv);
}
