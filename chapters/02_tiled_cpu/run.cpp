#include "run.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "common/error.hpp"
#include "common/timer.hpp"

namespace ch02 {
namespace {

std::string trace_table(const std::vector<TraceStep>& steps, int64_t row) {
  std::string table =
      text("  row %-6lld %6s %11s %11s %11s %11s %11s\n", static_cast<long long>(row), "tile",
           "max of S", "max of P", "e^(m - m')", "m", "l");
  for (const TraceStep& step : steps) {
    table += text("             %6lld %11.5g %11.5g %11.5g %11.5g %11.5g\n",
                  static_cast<long long>(step.kv_tile), step.tile_max, step.largest_p, step.rescale,
                  step.m, step.l);
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
  return text(
      "  moved      %lld bytes read, %lld written\n"
      "  tiles      %lld computed, %lld hidden and skipped\n"
      "  memory     %lld bytes besides inputs and outputs\n",
      static_cast<long long>(report.counts.bytes_read),
      static_cast<long long>(report.counts.bytes_written),
      static_cast<long long>(report.counts.tiles),
      static_cast<long long>(report.counts.tiles_skipped),
      static_cast<long long>(report.peak_bytes));
}

}  // namespace

void Flags::declare(fa::Cli& cli) {
  std::vector<std::string> names;
  for (const AlgorithmName& one : kAlgorithms) names.push_back(one.name);
  cli.choice("--algorithm", algorithm, names, "which rung of the ladder [tiled]");
  cli.integer("--block-q", block_q, 1, 1024, "queries in a tile [64]");
  cli.integer("--block-kv", block_kv, 1, 1024, "keys in a tile [64]");
  cli.choice("--modifier", modifier, {"none", "causal", "alibi", "window"},
             "what changes a score before softmax [none]");
  cli.integer("--window", window, 1, int64_t{1} << 40,
              "keys that --modifier window leaves visible [128]");
  cli.flag("--trace", trace, "print m and l of one row after each tile");
  cli.integer("--trace-row", trace_row, 0, int64_t{1} << 40,
              "that row: (batch * heads + head) * Lq + query [0]");
  cli.integer("--memory-limit", memory_limit, 0, kNoLimit,
              "bytes the algorithm may allocate besides inputs and outputs");
}

void refuse_unused_options(const fa::Arguments& args, const Flags& flags) {
  const Algorithm algorithm = flags.options().algorithm;
  if (args.given("--trace-row") && !flags.trace) {
    throw fa::InputError("--trace-row: goes with --trace, which prints that row");
  }
  if (args.given("--window") && flags.modifier != "window") {
    throw fa::InputError("--window: goes with --modifier window");
  }
  const bool has_tiles = algorithm <= Algorithm::online || algorithm == Algorithm::tiled;
  for (const char* option : {"--block-q", "--block-kv"}) {
    if (has_tiles || !args.given(option)) continue;
    throw fa::InputError(std::string(option) + ": --algorithm " + name(algorithm) +
                         " has no such tiles; native, safe, online and tiled have");
  }
}

Options Flags::options() const {
  Options options;
  for (const AlgorithmName& one : kAlgorithms) {
    if (algorithm == one.name) options.algorithm = one.algorithm;
  }
  options.tiling = {block_q, block_kv};
  if (modifier == "alibi") options.modifier.kind = ModifierChoice::kAlibi;
  if (modifier == "window") options.modifier.kind = ModifierChoice::kWindow;
  options.modifier.window = window;
  options.memory_limit = memory_limit;
  if (trace) options.traced_row = trace_row;
  return options;
}

fa::Run run(fa::Tensors& tensors, const fa::Arguments& args, const Flags& flags) {
  Options options = flags.options();
  options.breaks = args.break_bits;
  validate(tensors, options);
  fa::Run result;
  Report report;
  result.time_ms = fa::time_ms([&] { report = attend(tensors, options, tensors.o, tensors.lse); });
  result.title = name(options.algorithm);
  if (options.algorithm == Algorithm::tiled) {
    result.title += ", block " + std::to_string(options.tiling.block_q) + " x " +
                    std::to_string(options.tiling.block_kv);
  }
  if (options.modifier.kind != ModifierChoice::kNone) result.title += ", " + flags.modifier;
  if (flags.trace) result.notes += trace_table(report.trace, flags.trace_row);
  if (args.profile) result.notes += profile_table(report);
  result.profile = fa::shared_json({{"bytes_read", report.counts.bytes_read},
                                    {"bytes_written", report.counts.bytes_written},
                                    {"tiles", report.counts.tiles},
                                    {"tiles_skipped", report.counts.tiles_skipped},
                                    {"peak_bytes", report.peak_bytes}});
  for (const TraceStep& step : report.trace) {
    (*result.profile)["trace"].push_back({step.kv_tile, traced(step.tile_max),
                                          traced(step.largest_p), traced(step.rescale),
                                          traced(step.m), traced(step.l)});
  }
  result.bench = [&] { bench(tensors); };
  return result;
}

}  // namespace ch02
