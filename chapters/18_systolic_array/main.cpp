// Chapter 18: a systolic array, simulated cycle by cycle, and the cost of attention on a machine
// built around one.
//
//   ch18_systolic_array                                the chapter as a story
//   ch18_systolic_array matmul --trace                 2 × 3 times 3 × 2, every cell in every cycle
//   ch18_systolic_array attention --causal --accounting seed
//   ch18_systolic_array assumptions --causal           which assumption is worth how much
//   ch18_systolic_array loop --as vmap                 the graph of tasks and its critical path
//   ch18_systolic_array roofline | traffic | inside    four chips; round trips; softmax in the
//   array
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "breaks.hpp"
#include "breaks/ch18_systolic_array.hpp"
#include "common/cli.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "report.hpp"
#include "story.hpp"

namespace ch18 {
namespace {

constexpr std::int64_t kLongest = 1'000'000, kWidest = 65536;

int matmul(const MatmulRequest& request, const std::vector<std::string>& break_names,
           const std::string& json, fa::Invocation& call) {
  const MatmulRun run = run_matmul(request);
  call.result = {.passed = run.passed(),
                 .elements = request.m * request.n,
                 .mismatches = run.mismatches,
                 .nonfinite = run.nonfinite,
                 .max_abs_error = run.max_abs_error};
  const int code = run.passed() ? fa::kAgreed : fa::kDisagreed;
  if (call.silent) return code;
  std::cout << call.heading;
  if (request.trace) std::cout << trace_text(request, run) << "\n";
  std::cout << matmul_text(request, run);
  call.json = json;
  call.report = fa::shared_json(matmul_json(request, run, break_names));
  return code;
}

int attention(const AttentionShape& shape, Accounting accounting, const Machine& machine,
              const std::string& json) {
  const AttentionCost cost = attention_cost(shape, accounting, machine);
  std::cout << attention_text(shape, accounting, machine, cost);
  if (!json.empty()) fa::write_json(json, attention_json(shape, accounting, machine, cost));
  return fa::kAgreed;
}

int run_command(fa::Invocation& call) {
  fa::Cli cli("ch18_systolic_array", "A systolic array, tick by tick, and attention on it.");
  bool list = false, bench = false;
  cli.flag("--list-breaks", list, "print what --break accepts");
  cli.flag("--bench", bench, "how fast the arrays tick here");
  std::vector<std::string> break_names;
  cli.texts("--break", break_names, "switch something off, and run the input that shows it");

  MatmulRequest product;
  std::string dataflow = "weight", json;
  std::int64_t seed = 1;
  bool list_here = false;
  fa::Cli& matmul_cli = cli.command("matmul", "multiply [m, k] by [k, n] on the array");
  matmul_cli.integer("--m", product.m, 1, kLongest, "rows of A and of C");
  matmul_cli.integer("--k", product.k, 1, kLongest, "columns of A, rows of B");
  matmul_cli.integer("--n", product.n, 1, kLongest, "columns of B and of C");
  matmul_cli.integer("--rows", product.rows, 1, kWidest, "rows of the array");
  matmul_cli.integer("--cols", product.cols, 1, kWidest, "columns of the array");
  matmul_cli.choice("--dataflow", dataflow, {"weight", "output"}, "what stays in the cells");
  matmul_cli.flag("--double-buffer", product.double_buffer,
                  "the next tile's weights arrive while this one multiplies");
  matmul_cli.integer("--seed", seed, 0, 1'000'000'000, "seed of the random digits in A and B");
  matmul_cli.texts("--break", break_names, "switch something off (see --list-breaks)");
  matmul_cli.flag("--list-breaks", list_here, "print what --break accepts");
  matmul_cli.flag("--trace", product.trace, "print every cell in every cycle");
  matmul_cli.output_file("--json", json,
                         "write the result, and the trace if asked for, to this file");

  AttentionShape shape;
  Machine machine;
  std::string algorithm = "flash", accounting = "seed";
  const auto add_shape = [&](fa::Cli& to) {
    to.integer("--n", shape.n, 1, kLongest, "number of queries, and of keys");
    to.integer("--dim", shape.dim, 1, kWidest, "head dimension");
  };
  fa::Cli& attention_cli = cli.command("attention", "cycles of attention on MXU and VPU");
  attention_cli.choice("--algorithm", algorithm, {"flash", "standard"}, "tiled or whole");
  add_shape(attention_cli);
  attention_cli.integer("--block", shape.block, 1, kLongest, "queries and keys of a tile");
  attention_cli.flag("--causal", shape.causal, "skip the tiles that the mask hides (flash)");
  attention_cli.choice("--accounting", accounting, {"seed", "array", "pipelined", "overlapped"},
                       "which costs are counted");
  attention_cli.integer("--mxus", machine.mxus, 1, 1024, "matrix units");
  attention_cli.integer("--lanes", machine.lanes, 1, kWidest,
                        "elements that the VPU computes per cycle");
  attention_cli.output_file("--json", json, "write the result to this file");

  fa::Cli& assumptions_cli = cli.command("assumptions", "the same under each assumption");
  add_shape(assumptions_cli);
  assumptions_cli.flag("--causal", shape.causal, "skip the tiles that the mask hides (flash)");

  std::string loop;
  LoopShape loop_shape;
  fa::Cli& loop_cli = cli.command("loop", "tiles as tasks that wait for each other");
  loop_cli.choice("--as", loop, {"fori", "vmap", "pallas", "splash"},
                  "one way to write the loop, with its critical path [a table of all]");
  loop_cli.integer("--n", loop_shape.n, 1, kLongest, "queries, and keys");
  loop_cli.integer("--dim", loop_shape.dim, 1, kWidest, "head dimension");
  loop_cli.integer("--block", loop_shape.block, 1, kLongest, "queries and keys of a tile");

  loop_cli.integer("--buffers", loop_shape.buffers, 1, 4096,
                   "tiles of K and V in VMEM (pallas, splash)");

  cli.command("loops", "the loops' models next to the article's measurements");
  fa::Cli& roofline_cli = cli.command("roofline", "when tiling is faster, on four chips");
  roofline_cli.integer("--dim", shape.dim, 1, kWidest, "head dimension");
  cli.command("traffic", "round trips through HBM next to the article's measurements");

  std::int64_t size = 128;
  fa::Cli& inside_cli = cli.command("inside", "softmax outside the array, and inside");
  inside_cli.integer("--size", size, 1, kWidest, "rows and columns of the array, and d");

  cli.optional_command();
  const std::string command = cli.parse(call.argc, call.argv);
  if (list || list_here) {
    std::cout << fa::list_breaks(CH18_BREAKS);
    return fa::kAgreed;
  }
  if (bench) return run_bench(std::cout) ? fa::kAgreed : fa::kDisagreed;
  if (command == "matmul") {
    product.dataflow = dataflow == "weight" ? Dataflow::kWeight : Dataflow::kOutput;
    product.breaks = fa::parse_breaks(break_names, kBreaks);
    product.seed = static_cast<std::uint32_t>(seed);
    if (product.double_buffer && product.dataflow == Dataflow::kOutput) {
      throw fa::InputError(
          "--double-buffer: accepted with --dataflow weight, because only weights have a "
          "second buffer");
    }
    return matmul(product, break_names, json, call);
  }
  if (command == "attention") {
    shape.algorithm = algorithm == "flash" ? Algorithm::kFlash : Algorithm::kStandard;
    const Accounting by = accounting == "seed"        ? Accounting::kSeed
                          : accounting == "array"     ? Accounting::kArray
                          : accounting == "pipelined" ? Accounting::kPipelined
                                                      : Accounting::kOverlapped;
    return attention(shape, by, machine, json);
  }
  if (command == "assumptions") {
    std::cout << assumptions_text(shape.n, shape.dim, shape.causal);
    return fa::kAgreed;
  }
  if (command == "loop") {
    const std::int64_t blocks = (loop_shape.n - 1) / loop_shape.block + 1;
    if (blocks > 256) {
      throw fa::InputError("--n " + std::to_string(loop_shape.n) + " --block " +
                           std::to_string(loop_shape.block) + ": " + std::to_string(blocks) +
                           " tiles in a row; accepted: up to 256");
    }
    if (loop.empty()) {
      std::cout << loop_table(loop_shape);
      return fa::kAgreed;
    }
    const Loop as = loop == "fori"     ? Loop::kSerial
                    : loop == "vmap"   ? Loop::kVmap
                    : loop == "pallas" ? Loop::kPallas
                                       : Loop::kSplash;
    std::cout << loop_text(as, loop_shape);
    return fa::kAgreed;
  }
  if (command == "loops") std::cout << loops_text();
  if (command == "roofline") std::cout << roofline_text(shape.dim);
  if (command == "traffic") std::cout << traffic_text();
  if (command == "inside") std::cout << inside_text(size);
  if (!command.empty()) return fa::kAgreed;
  return tell_story(std::cout) ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace
}  // namespace ch18

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH18_BREAKS, ch18::run_command);
}
