// The subcommands schedules and memory print the bytes that each algorithm transfers and allocates.

#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "common/text.hpp"
#include "cpu_backward.hpp"
#include "cpu_broken.hpp"
#include "report.hpp"

namespace fa::ch10 {

void add_commands(Cli& cli, CommandOptions& options) {
  cli.command("chain", "every formula on 3 x 3 matrices, next to central differences");
  Cli& schedules = cli.command("schedules", "bytes that rows, columns and others move");
  schedules.integer("--length", options.length, 1, 4096, "queries and keys [512]");
  schedules.integer("--dim", options.dim, 1, kLargestDim, "numbers in a query [64]");
  schedules.integer("--block-q", options.block_q, 1, 1024, "queries in a tile [64]");
  schedules.integer("--block-kv", options.block_kv, 1, 1024, "keys in a tile [64]");
  schedules.flag("--causal", options.causal, "a query sees no later key");
  schedules.output_file("--json", options.json, "write every step to this file");
  cli.command("memory", "what naive and tiled allocate, L = 256 and up")
      .integer("--longest", options.longest, 256, 1 << 14, "the last L [2048]");
  Cli& elements = cli.command("elements", "how far each element is from float64, causal");
  elements.integer("--queries", options.queries, 1, 1024, "queries [68]");
  elements.integer("--keys", options.keys, 1, 1024, "keys [64]");
  elements.integer("--dim", options.elements_dim, 1, kLargestDim, "numbers in a query [8]");
  elements.integer("--block", options.block, 1, 256, "queries and keys in a tile [8]");
  elements.choice("--dtype", options.dtype, {"bf16", "f32"}, "element type [bf16]");
  std::vector<std::string> breaks = {"none"};
  for (const Break& one : CPU_BREAKS) breaks.emplace_back(one.name);
  elements.choice("--break", options.broken, breaks, "switch one line off [none]");
  elements.output_file("--json", options.json, "write every error to this file");
  Cli& projections =
      cli.command("projections", "dX and dW from dQ: stored, folded, consumed twice");
  projections.integer("--length", options.rows, 1, 4096, "queries and keys [256]");
  projections.integer("--dim", options.head_dim, 1, kLargestDim, "columns of dQ [32]");
  projections.integer("--width", options.width, 1, 4096, "columns of X [64]");
  cli.optional_command();
}

int run_command(const std::string& name, const CommandOptions& options) {
  if (name == "chain") return chain_command();
  if (name == "schedules") return schedules_command(options);
  if (name == "memory") return memory_command(options);
  if (name == "elements") return elements_command(options);
  return projections_command(options);
}

namespace {

// One head of random input, and a run of an algorithm on it.
struct Run {
  Run(int64_t length, int64_t dim, bool causal, const Options& options) {
    Problem problem = random_problem({1, 1, length, length, dim}, Dtype::f32, 0);
    problem.causal = causal;
    const std::vector<int64_t> shape = like_q(problem);
    problem.d_o = random_values(shape, Dtype::f32, 0, 0);
    validate(problem, options);
    std::vector<float> dQ(length * dim), dK(length * dim), dV(length * dim);
    report = differentiate(problem, options, dQ, dK, dV);
    passed = check_gradients(problem, problem.d_o, dQ, dK, dV).passed();
  }
  Report report;
  bool passed;
};

int64_t sum(const Bytes& bytes, std::initializer_list<Tensor> tensors) {
  int64_t result = 0;
  for (const Tensor one : tensors) result += bytes[static_cast<size_t>(one)];
  return result;
}

std::string kib(int64_t bytes, int width = 6) {
  return text(" %*.1f", width, static_cast<double>(bytes) / 1024);
}

void print_line(const std::string& name, const char* direction, const Bytes& bytes) {
  std::cout << text("%-10s %-7s", name.c_str(), direction)
            << kib(sum(bytes, {Tensor::Q, Tensor::dO, Tensor::O}))
            << kib(sum(bytes, {Tensor::K, Tensor::V})) << kib(sum(bytes, {Tensor::LSE, Tensor::D}))
            << kib(sum(bytes, {Tensor::dQ})) << kib(sum(bytes, {Tensor::dK, Tensor::dV}))
            << kib(sum(bytes, {Tensor::S, Tensor::P, Tensor::dP, Tensor::dS}), 8)
            << kib(total(bytes), 8);
}

}  // namespace

int schedules_command(const CommandOptions& options) {
  const Tiling tiling{options.block_q, options.block_kv};
  const int64_t tiles =
      tiles_in(options.length, tiling.block_q) * tiles_in(options.length, tiling.block_kv);
  if (tiles > kLongestTrace) {
    throw InputError(text("--block-q %lld --block-kv %lld: %lld pairs of tiles; at most %lld",
                          (long long)tiling.block_q, (long long)tiling.block_kv, (long long)tiles,
                          (long long)kLongestTrace));
  }
  validate_tiling(tiling, options.dim);
  std::cout
      << text("One head, %lld queries and keys, d = %lld, fp32, tiles of %lld x %lld%s: KiB.\n",
              (long long)options.length, (long long)options.dim, (long long)options.block_q,
              (long long)options.block_kv, options.causal ? ", causal" : "")
      << text("%-18s %6s %6s %6s %6s %6s %8s %8s %8s\n", "", "Q,dO,O", "K,V", "LSE,D", "dQ",
              "dK,dV", "matrices", "together", "products");
  bool passed = true;
  nlohmann::json schedules = nlohmann::json::object();
  const auto add = [&](const char* name, Algorithm algorithm, DFrom d_from) {
    Options chosen;
    chosen.algorithm = algorithm;
    chosen.tiling = tiling;
    chosen.d_from = d_from;
    chosen.trace = algorithm != Algorithm::naive && !options.json.empty();
    const Run run(options.length, options.dim, options.causal, chosen);
    const Traffic& traffic = run.report.traffic;
    const std::string words(name), first = words.substr(0, words.find(' '));  // on two lines
    print_line(first, "read", traffic.read);
    std::cout << text(" %8lld\n", (long long)(traffic.products / traffic.tiles));
    print_line(words.substr(std::min(first.size() + 1, words.size())), "written", traffic.written);
    std::cout << '\n';
    schedules[name] = as_json(run.report);
    passed = passed && run.passed;
  };
  add("naive", Algorithm::naive, DFrom::o);
  add("rows", Algorithm::rows, DFrom::o);
  add("columns", Algorithm::columns, DFrom::o);
  add("rows, D from P", Algorithm::rows, DFrom::p);
  add("columns, D from P", Algorithm::columns, DFrom::p);
  std::cout << (passed ? "All gradients agree with float64.\n" : "A gradient does NOT agree.\n");
  if (!options.json.empty()) {
    write_json(options.json, {{"length", options.length},
                              {"dim", options.dim},
                              {"block_q", options.block_q},
                              {"block_kv", options.block_kv},
                              {"causal", options.causal},
                              {"schedules", schedules}});
  }
  return passed ? kAgreed : kDisagreed;
}

int memory_command(const CommandOptions& options) {
  std::cout << "One head, fp32, d = 64, one thread; MiB allocated besides inputs and outputs.\n"
            << text("%8s %14s %10s %10s %12s\n", "L", "four matrices", "naive", "tiled",
                    "naive/tiled");
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  bool passed = true;
  for (int64_t length = 256; length <= options.longest; length *= 2) {
    Options chosen;
    chosen.threads = 1;
    const Run tiled(length, 64, false, chosen);
    chosen.algorithm = Algorithm::naive;
    const Run naive(length, 64, false, chosen);
    passed = passed && tiled.passed && naive.passed;
    std::cout << text("%8lld %14.2f %10.2f %10.3f %11.1fx\n", (long long)length,
                      mib(16 * length * length), mib(naive.report.peak_bytes),
                      mib(tiled.report.peak_bytes),
                      double(naive.report.peak_bytes) / double(tiled.report.peak_bytes))
              << std::flush;
  }
  return passed ? kAgreed : kDisagreed;
}

}  // namespace fa::ch10
