// Tiled attention on the CPU: from the formula to FlashAttention, one idea at a time.
//
//   ch02_tiled_cpu                                   the chapter as a story
//   ch02_tiled_cpu --algorithm tiled --causal --trace
//   ch02_tiled_cpu ladder | walkthrough | loop-order | traffic | overflow | memory | …

#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "attention.hpp"
#include "breaks/ch02_tiled_cpu.hpp"
#include "commands.hpp"
#include "common/error.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"

namespace ch02 {
namespace {

struct Flags {
  std::string algorithm = "tiled", modifier = "none";
  int64_t block_q = 64, block_kv = 64, window = 128, memory_limit = kNoLimit, trace_row = 0;
  bool trace = false;
  CommandOptions command;
  std::function<bool(const char* option)> given;
};
Flags flags;

void add_options(fa::Cli& cli) {
  std::vector<std::string> names;
  for (const AlgorithmName& one : kAlgorithms) names.push_back(one.name);
  cli.choice("--algorithm", flags.algorithm, names, "which rung of the ladder [tiled]");
  cli.integer("--block-q", flags.block_q, 1, 1024, "queries in a tile [64]");
  cli.integer("--block-kv", flags.block_kv, 1, 1024, "keys in a tile [64]");
  cli.choice("--modifier", flags.modifier, {"none", "causal", "alibi", "window"},
             "what changes a score before softmax [none]");
  cli.integer("--window", flags.window, 1, int64_t{1} << 40,
              "keys that --modifier window leaves visible [128]");
  cli.flag("--trace", flags.trace, "print m and l of one row after each tile");
  cli.integer("--trace-row", flags.trace_row, 0, int64_t{1} << 40,
              "that row: (batch * heads + head) * Lq + query [0]");
  cli.integer("--memory-limit", flags.memory_limit, 0, kNoLimit,
              "bytes the algorithm may allocate beside inputs and outputs");
  add_commands(cli, flags.command);
  flags.given = [&cli](const char* option) { return cli.given(option); };
}

// Throws InputError for an option that this run would ignore.
void refuse_unused_options(Algorithm algorithm) {
  if (flags.given("--trace-row") && !flags.trace) {
    throw fa::InputError("--trace-row: goes with --trace, which prints that row");
  }
  if (flags.given("--window") && flags.modifier != "window") {
    throw fa::InputError("--window: goes with --modifier window");
  }
  const bool has_tiles = algorithm <= Algorithm::online || algorithm == Algorithm::tiled;
  for (const char* option : {"--block-q", "--block-kv"}) {
    if (has_tiles || !flags.given(option)) continue;
    throw fa::InputError(std::string(option) + ": --algorithm " + name(algorithm) +
                         " has no such tiles; native, safe, online and tiled have");
  }
}

Options chosen_options() {
  Options options;
  for (const AlgorithmName& one : kAlgorithms) {
    if (flags.algorithm == one.name) options.algorithm = one.algorithm;
  }
  options.tiling = {flags.block_q, flags.block_kv};
  if (flags.modifier == "alibi") options.modifier.kind = ModifierChoice::kAlibi;
  if (flags.modifier == "window") options.modifier.kind = ModifierChoice::kWindow;
  options.modifier.window = flags.window;
  options.memory_limit = flags.memory_limit;
  if (flags.trace) options.traced_row = flags.trace_row;
  return options;
}

void prepare(fa::Problem& problem) {
  if (flags.modifier == "causal") problem.causal = true;
  set_reference_modifier(problem, chosen_options().modifier);
}

std::string trace_table(const std::vector<TraceStep>& steps, int64_t row) {
  char text[160];
  std::snprintf(text, sizeof text, "  row %-6lld %6s %12s %12s %12s %12s %12s\n",
                static_cast<long long>(row), "tile", "max of S", "max of P", "e^(m - m')", "m",
                "l");
  std::string table = text;
  for (const TraceStep& step : steps) {
    std::snprintf(text, sizeof text, "             %6lld %12.5g %12.5g %12.5g %12.5g %12.5g\n",
                  static_cast<long long>(step.kv_tile), step.tile_max, step.largest_p, step.rescale,
                  step.m, step.l);
    table += text;
  }
  return table;
}

// Returns a number of the state for JSON. m starts at -inf, which is written as "-inf", as in the
// table.
nlohmann::json traced(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::string profile_table(const Report& report) {
  char text[400];
  std::snprintf(text, sizeof text,
                "  moved      %lld bytes read, %lld written\n"
                "  tiles      %lld computed, %lld hidden and skipped\n"
                "  memory     %lld bytes beside inputs and outputs\n",
                static_cast<long long>(report.counts.bytes_read),
                static_cast<long long>(report.counts.bytes_written),
                static_cast<long long>(report.counts.tiles),
                static_cast<long long>(report.counts.tiles_skipped),
                static_cast<long long>(report.peak_bytes));
  return text;
}

fa::Outcome forward(const fa::Problem& problem, const fa::Request& request,
                    std::span<std::vector<float>> outputs) {
  Options options = chosen_options();
  options.breaks = request.breaks;
  validate(problem, options);
  fa::Outcome outcome;
  Report report;
  outcome.time_ms = fa::time_ms([&] { report = attend(problem, options, outputs[0], outputs[1]); });
  outcome.title = name(options.algorithm);
  if (options.algorithm == Algorithm::tiled) {
    outcome.title += ", block " + std::to_string(options.tiling.block_q) + " x " +
                     std::to_string(options.tiling.block_kv);
  }
  if (options.modifier.kind != ModifierChoice::kNone) outcome.title += ", " + flags.modifier;
  if (flags.trace) outcome.notes += trace_table(report.trace, flags.trace_row);
  if (request.profile) outcome.notes += profile_table(report);
  outcome.profile = fa::shared_json({{"bytes_read", report.counts.bytes_read},
                                     {"bytes_written", report.counts.bytes_written},
                                     {"tiles", report.counts.tiles},
                                     {"tiles_skipped", report.counts.tiles_skipped},
                                     {"peak_bytes", report.peak_bytes}});
  for (const TraceStep& step : report.trace) {
    (*outcome.profile)["trace"].push_back({step.kv_tile, traced(step.tile_max),
                                           traced(step.largest_p), traced(step.rescale),
                                           traced(step.m), traced(step.l)});
  }
  return outcome;
}

}  // namespace
}  // namespace ch02

int main(int argc, char** argv) {
  using namespace ch02;
  fa::AttentionProgram program;
  program.name = "ch02_tiled_cpu";
  program.about = "Chapter 02: tiled attention on the CPU";
  program.default_shape = {1, 4, 512, 512, 64};
  program.breaks = kBreaks;
  program.demos = CH02_BREAKS;
  program.dtypes = {fa::Dtype::f32, fa::Dtype::f16, fa::Dtype::bf16};
  program.add_options = add_options;
  program.prepare = prepare;
  program.validate = [](const fa::Problem& problem) {
    const Options options = chosen_options();
    refuse_unused_options(options.algorithm);
    validate(problem, options);
  };
  program.run = forward;
  program.command = [](const std::string& command) { return run_command(command, flags.command); };
  program.bench = [](const fa::Problem& problem, const fa::Request&) { bench(problem); };
  program.story = story;
  return fa::run_attention_program(program, argc, argv);
}
