#include "common/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "common/check.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/json_report.hpp"
#include "common/npy.hpp"

namespace fa {
namespace {

struct Options {
  Request request;
  std::string shape, q, k, v, out, lse, json, dtype;
  std::vector<std::string> breaks;
  int64_t seed = 0;
  double scale = 0, input_scale = 1;
  bool causal = false, list_breaks = false;
};

void declare(Cli& cli, const AttentionProgram& program, Options& options) {
  cli.text("--shape", options.shape, "B,H,Lq,Lkv,D of a random input [" +
                                         to_string(program.default_shape) + "]");
  cli.integer("--seed", options.seed, 0, std::numeric_limits<int64_t>::max(), "of random input [0]");
  cli.text("--q", options.q, "Q from a .npy file, float16 or float32, [B,H,L,D] or [L,D]");
  cli.text("--k", options.k, "K, likewise");
  cli.text("--v", options.v, "V, likewise");
  cli.text("--out", options.out, "write O to this .npy file (float32)");
  cli.text("--lse", options.lse, "write the log-sum-exp of each row to this .npy file (float32)");
  cli.flag("--causal", options.causal, "hide key j from query i when j > i + (Lkv - Lq)");
  cli.real("--scale", options.scale, "of the scores [1/sqrt(D)]");
  cli.real("--input-scale", options.input_scale, "multiplies Q: sharper softmax [1]");
  std::vector<std::string> dtypes;
  for (const Dtype dtype : program.dtypes) dtypes.push_back(name(dtype));
  cli.choice("--dtype", options.dtype, dtypes,
             std::string("element type [") + dtypes.front() + "]");
  cli.texts("--break", options.breaks, "switch one load-bearing line off (repeatable)");
  cli.flag("--list-breaks", options.list_breaks, "list the breaks and exit");
  cli.flag("--profile", options.request.profile, "print what was counted");
  cli.flag("--bench", options.request.bench, "measure speed");
  cli.text("--json", options.json, "write the report to this file");
  if (program.has_device) {
    options.request.device = "auto";
    cli.choice("--device", options.request.device, {"auto", "gpu", "emulator"},
               "where to run [auto: the GPU if there is one]");
    cli.integer("--schedule-seed", options.request.schedule_seed, 0,
                std::numeric_limits<int64_t>::max(), "order of the emulator's threads [0]");
    cli.text("--events", options.request.events, "write the emulator's event log to this file");
    cli.flag("--i-know", options.request.i_know,
             "run on the GPU even a break whose behaviour is undefined there");
  }
  program.add_options(cli);
}

// "B,H,Lq,Lkv,D", every size at least 1.
Shape parse_shape(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const std::string what = "--shape " + shown(text);
  if (parts.size() != 5) throw InputError(what + ": expected five numbers B,H,Lq,Lkv,D");
  Shape shape;
  int64_t* const sizes[] = {&shape.batch, &shape.heads, &shape.q, &shape.kv, &shape.dim};
  for (size_t i = 0; i < parts.size(); ++i) {
    *sizes[i] = parse_integer(parts[i], what + ": size", 1, kMostElements);
  }
  check_addressable(shape, what);
  return shape;
}

Problem make_problem(const AttentionProgram& program, const Options& options, const Cli& cli,
                     bool* two_dimensional) {
  Dtype dtype = program.dtypes.front();
  for (const Dtype accepted : program.dtypes) {
    if (options.dtype == name(accepted)) dtype = accepted;
  }
  const int files = cli.given("--q") + cli.given("--k") + cli.given("--v");
  if (files != 0 && files != 3) throw InputError("--q, --k and --v go together: give all three");
  if (files == 3 && (cli.given("--shape") || cli.given("--seed"))) {
    throw InputError("--shape and --seed make random input: give them or --q --k --v, not both");
  }
  *two_dimensional = false;
  Problem problem;
  if (files == 3) {
    problem = load_problem(options.q, options.k, options.v, dtype, options.input_scale,
                           two_dimensional);
  } else {
    const Shape shape =
        cli.given("--shape") ? parse_shape(options.shape) : program.default_shape;
    Problem shape_only{shape, dtype, 1, options.causal, {}, {}, {}};
    program.validate(shape_only);  // before the time that random numbers take
    problem = random_problem(shape, dtype, static_cast<uint64_t>(options.seed),
                             options.input_scale);
  }
  problem.causal = options.causal;
  if (cli.given("--scale")) problem.scale = options.scale;
  program.prepare(problem);
  return problem;
}

// The first element of O, or else of LSE, that is wrong: tensor, index, expected, got; or null.
nlohmann::json first_bad(const CheckResult& check, const Shape& shape) {
  const bool in_o = check.o.first_bad >= 0;
  const Comparison& wrong = in_o ? check.o : check.lse;
  if (wrong.first_bad < 0) return nullptr;
  const int64_t row = in_o ? wrong.first_bad / shape.dim : wrong.first_bad;
  std::vector<int64_t> index = {row / shape.q / shape.heads, row / shape.q % shape.heads,
                                row % shape.q};
  if (in_o) index.push_back(wrong.first_bad % shape.dim);
  return {{"tensor", in_o ? "O" : "LSE"},
          {"index", index},
          {"expected", json_number(wrong.expected)},
          {"got", json_number(wrong.got)}};
}

// Scores that fp32 cannot hold are the input's fault, not the algorithm's. Kernels form Q K.T first
// and scale it then, some of them by scale · log2(e).
void check_scores_fit(const Problem& problem) {
  const auto largest = [](const std::vector<float>& values) {
    float result = 0;  // the values are finite
    for (const float value : values) result = std::max(result, std::abs(value));
    return static_cast<double>(result);
  };
  const double product =
      static_cast<double>(problem.shape.dim) * largest(problem.q) * largest(problem.k);
  const double scale = std::abs(problem.scale) * std::numbers::log2e;
  if (!(std::max(1.0, product) * std::max(1.0, scale) < std::numeric_limits<float>::max())) {
    throw InputError("Q K.T or scale * Q K.T could pass 3.4e38, the largest fp32 number: choose a "
                     "smaller --scale or --input-scale, or smaller values");
  }
}

nlohmann::json report(const AttentionProgram& program, const Problem& problem,
                      const Options& options, const Outcome& outcome, const CheckResult& check) {
  const Shape& shape = problem.shape;
  nlohmann::json json;
  json["chapter"] = program.name;
  json["device"] = outcome.device;
  json["dtype"] = name(problem.dtype);
  json["shape"] = {{"batch", shape.batch}, {"heads", shape.heads}, {"q", shape.q},
                   {"kv", shape.kv},       {"dim", shape.dim}};
  json["causal"] = problem.causal;
  json["breaks"] = options.breaks;
  json["check"] = {{"passed", check.passed()},
                   {"inconclusive", check.inconclusive},
                   {"max_abs_error", json_number(check.o.max_abs_error)},
                   {"relative_error", json_number(check.o.relative_error)},
                   {"nonfinite", check.o.nonfinite + check.lse.nonfinite},
                   {"mismatches", check.o.mismatches + check.lse.mismatches},
                   {"bound", json_number(check.o.bound)},
                   {"rms_error", json_number(check.o.rms_error)},
                   {"rms_bound", json_number(check.rms_bound)},
                   {"rows", check.rows},
                   {"rows_checked", check.rows_checked},
                   {"elements", check.o.elements + check.lse.elements},
                   {"first_bad", first_bad(check, shape)}};
  json["time_ms"] = json_number(outcome.time_ms);
  json["profile"] = outcome.profile;
  json["hazards"] = outcome.hazards;
  return json;
}

std::string indented(const std::string& lines) {
  std::string text;
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += "             ";
  }
  return text;
}

int run(const AttentionProgram& program, int argc, char** argv) {
  if (argc == 1 && program.story) return program.story();
  Options options;
  Cli cli(program.name, program.about);
  declare(cli, program, options);
  const std::string command = cli.parse(argc, argv);
  if (!command.empty()) return program.command(command);
  if (options.list_breaks) {
    std::cout << list_breaks(program.breaks);
    return kAgreed;
  }
  options.request.breaks = parse_breaks(options.breaks, program.breaks);
  for (const auto& [asked, feature, option] :
       {std::tuple{options.causal, CAUSAL, "--causal"}, {!options.lse.empty(), LSE, "--lse"}}) {
    if (asked && !(program.features & feature)) {
      throw InputError(std::string(option) +
                       ": on the GPU it comes with chapter 09; here chapter 02 has it");
    }
  }
  for (const auto& [option, path] : {std::pair{"--out", &options.out}, {"--lse", &options.lse},
                                     {"--json", &options.json},
                                     {"--events", &options.request.events}}) {
    if (option == std::string("--events") && !program.has_device) continue;
    if (cli.given(option) && path->empty()) throw InputError(std::string(option) + ": empty path");
    if (cli.given(option)) check_writable(*path);
  }

  bool two_dimensional = false;
  const Problem problem = make_problem(program, options, cli, &two_dimensional);
  check_scores_fit(problem);
  program.validate(problem);
  const Shape& shape = problem.shape;

  constexpr float kUnwritten = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> o(shape.q_elements(), kUnwritten);
  std::vector<float> lse(program.features & LSE ? shape.rows() : 0, kUnwritten);
  const Outcome outcome = program.forward(problem, options.request, o, lse);
  const CheckResult check = check_output(problem, o, lse, static_cast<uint64_t>(options.seed));

  std::cout << program.name << ": " << (outcome.title.empty() ? "" : outcome.title + ", ")
            << name(problem.dtype) << ", shape " << to_string(shape)
            << (problem.causal ? ", causal" : "") << ", on " << outcome.device << '\n';
  for (const std::string& broken : options.breaks) std::cout << "  broken     " << broken << '\n';
  if (!times_hidden()) {
    const double flops = shape.flops() * (problem.causal ? 0.5 : 1.0);
    char text[128];
    std::snprintf(text, sizeof text, "  time       %.3f ms (%.1f GFLOP/s)\n", outcome.time_ms,
                  flops / outcome.time_ms * 1e-6);
    std::cout << text;
  }
  std::cout << outcome.notes << "  check      " << indented(describe(check, shape)) << '\n';

  const std::vector<int64_t> o_shape = two_dimensional
      ? std::vector<int64_t>{shape.q, shape.dim}
      : std::vector<int64_t>{shape.batch, shape.heads, shape.q, shape.dim};
  if (!options.out.empty()) write_npy(options.out, o, o_shape);
  if (!options.lse.empty()) {
    write_npy(options.lse, lse, std::span(o_shape).first(o_shape.size() - 1));
  }
  if (!options.json.empty()) {
    write_json(options.json, report(program, problem, options, outcome, check));
  }
  if (!check.passed() || outcome.hazardous) return kDisagreed;
  if (options.request.bench && program.bench) program.bench(problem, options.request);
  return kAgreed;
}

}  // namespace

bool times_hidden() { return std::getenv("FA_HIDE_TIMES") != nullptr; }

int run_attention_program(const AttentionProgram& program, int argc, char** argv) {
  static const AttentionProgram* current;
  current = &program;
  return guarded_main(argc, argv,
                      [](int count, char** arguments) { return run(*current, count, arguments); });
}

}  // namespace fa
