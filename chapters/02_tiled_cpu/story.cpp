// The chapter as a story, the table of subcommands, and --bench.

#include <algorithm>
#include <cmath>
#include <iostream>

#include "attention.hpp"
#include "commands.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"
#include "peak.hpp"

namespace ch02 {

void add_commands(fa::Cli& cli, CommandOptions& options) {
  cli.command("ladder", "1 to 6 through every rung; operations counted");
  fa::Cli& overflow =
      cli.command("overflow", "without the maximum: from which score on each type overflows");
  overflow.output_file("--json", options.json, "write p, l and o at every score to this file");
  // 512 values of 128 overflow an fp16 sum, with or without the maximum.
  overflow.integer("--keys", options.keys, 1, 511, "keys in that file [1, 64 and 256]");
  cli.command("walkthrough", "FlashAttention-1 on N = 5, d = 3, M = 59, step by step");
  cli.command("loop-order", "loads and stores of both loop orders, counted");
  fa::Cli& traffic = cli.command("traffic", "elements of each matrix, read and written");
  traffic.integer("--length", options.length, 1, 1024, "queries, and keys [5]");
  traffic.integer("--dim", options.dim, 1, 256, "their dimension [3]");
  traffic.integer("--block-q", options.block_q, 1, 1024, "queries in a tile [3]");
  traffic.integer("--block-kv", options.block_kv, 1, 1024, "keys in a tile [4]");
  traffic.flag("--causal", options.causal, "query i sees keys 0 to i");
  traffic.output_file("--json", options.json, "write each step to this file");
  fa::Cli& memory = cli.command("memory", "naive against tiled, memory at growing lengths");
  memory.integer("--longest", options.longest, 512, 65536, "length to stop at [4096]");
  memory.output_file("--json", options.json, "write the numbers to this file");
  cli.command("fusion", "three passes against one: bytes and time");
  cli.command("roofline", "the algorithms on the roofline of this machine");
  cli.optional_command();
}

int run_command(const std::string& name, const CommandOptions& options) {
  if (name == "ladder") return ladder_command();
  if (name == "overflow") return overflow_command(options);
  if (name == "walkthrough") return walkthrough_command();
  if (name == "loop-order") return loop_order_command();
  if (name == "traffic") return traffic_command(options);
  if (name == "memory") return memory_command(options);
  if (name == "fusion") return fusion_command();
  return roofline_command();
}

namespace {

struct RungResult {
  Algorithm algorithm;
  Report report;
  fa::CheckResult check;
  double time_ms;
};

RungResult climb(const fa::Problem& problem, Algorithm algorithm) {
  Options options;
  options.algorithm = algorithm;
  const float unwritten = std::nanf("");
  std::vector<float> o(problem.shape.q_elements(), unwritten);
  std::vector<float> lse(problem.shape.rows(), unwritten);
  RungResult rung{algorithm, {}, {}, 0};
  rung.time_ms = fa::median_ms(3, [&] { rung.report = attend(problem, options, o, lse); });
  rung.check = fa::check_output(problem, o, lse);
  return rung;
}

}  // namespace

int story() {
  const fa::Problem problem = fa::random_problem({1, 4, 512, 512, 64}, fa::Dtype::f32, 0);
  std::cout << "Chapter 02: attention on the CPU, from the formula to tiles.\n"
               "Input: 4 heads, 512 queries, 512 keys, d = 64, fp32, random.\n"
               "Each rung computes the same O = softmax(Q K.T / 8) V:\n\n";
  std::vector<RungResult> rungs;
  bool passed = true;
  for (const AlgorithmName& one : kAlgorithms) {
    std::cout << text("  %-20s %s\n", one.name, one.idea) << std::flush;
    rungs.push_back(climb(problem, one.algorithm));
    passed = passed && rungs.back().check.passed();
  }
  std::cout << text("\n  %-20s %10s %10s %10s%s  %s\n", "", "max error", "memory", "moved",
                    fa::times_hidden() ? "" : "       time", "check");
  for (const RungResult& rung : rungs) {
    const double moved = double(rung.report.counts.bytes_read + rung.report.counts.bytes_written);
    std::cout << text("  %-20s %10.1e %10s %10s", name(rung.algorithm), rung.check.o.max_abs_error,
                      fa::format_bytes(double(rung.report.peak_bytes)).c_str(),
                      moved == 0 ? "-" : fa::format_bytes(moved).c_str())
              << (fa::times_hidden() ? "" : text("%8.1f ms", rung.time_ms))
              << (rung.check.passed() ? "  passed\n" : "  FAILED\n");
  }
  std::cout << "\n\"memory\" is allocated in addition to inputs and outputs. \"moved\" is read and"
               "\nwritten, counted at every tile or row (- is not counted). The answer is the same"
               "\non every rung, but its cost is not.\n";
  return passed ? fa::kAgreed : fa::kDisagreed;
}

void bench(const fa::Problem& problem) {
  double peak = 0;  // the fastest of three runs, because other programs can only slow it down
  for (int i = 0; i < 3; ++i) peak = std::max(peak, measure_peak_gflops(0));
  std::cout << text("\nMeasured peak of multiply-adds: %.1f GFLOP/s on %d threads.\n", peak,
                    fa::hardware_threads());
  const auto row = [&](const fa::Problem& one) {
    const double flops = one.shape.flops() * (one.causal ? 0.5 : 1.0);
    std::cout << text("%8lld", (long long)one.shape.kv);
    for (const Algorithm algorithm : {Algorithm::safe, Algorithm::tiled, Algorithm::fast}) {
      Options options;
      options.algorithm = algorithm;
      std::vector<float> o(one.shape.q_elements()), lse(one.shape.rows());
      const double ms = fa::median_ms(5, [&] { attend(one, options, o, lse); });
      const double gflops = flops / ms * 1e-6;
      std::cout << text(" %9.3f ms %7.1f %4.0f%%", ms, gflops, 100 * gflops / peak) << std::flush;
    }
    std::cout << '\n';
  };
  std::cout << text("%8s %25s %25s %25s\n", "L", "naive (safe)", "tiled", "fast")
            << text("%8s", "");
  for (int i = 0; i < 3; ++i) std::cout << text(" %9s %10s %4s", "time", "GFLOP/s", "peak");
  std::cout << '\n';
  row(problem);
  std::cout << "\nWhere does naive stop being the faster one? One head, d = 64:\n";
  for (const int64_t length : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096}) {
    row(fa::random_problem({1, 1, length, length, 64}, fa::Dtype::f32, 0));
  }
}

}  // namespace ch02
