#include "common/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "common/error.hpp"
#include "common/json_report.hpp"
#include "common/npy.hpp"

namespace fa {
namespace {

struct Options {
  Request request;
  std::string shape, q, k, v, json, dtype;
  std::vector<std::string> inputs, outputs;  // files of the operation's own tensors, in its order
  std::vector<std::string> breaks;
  int64_t seed = 0;
  double scale = 0, input_scale = 1, v_scale = 1, ramp = 0, softcap = 0;
  std::string window, q_starts, kv_starts;
  int64_t kv_heads = 0;
  bool causal = false, alibi = false, list_breaks = false;
};

void declare(Cli& cli, const AttentionProgram& program, Options& options) {
  cli.text("--shape", options.shape,
           "B,H,Lq,Lkv,D of a random input [" + to_string(program.default_shape) + "]");
  cli.integer("--seed", options.seed, 0, std::numeric_limits<int64_t>::max(),
              "of random input [0]");
  cli.input_file("--q", options.q, "Q from a .npy file, float16 or float32, [B,H,L,D] or [L,D]");
  cli.input_file("--k", options.k, "K, likewise");
  cli.input_file("--v", options.v, "V, likewise");
  const Operation& operation = *program.operation;
  options.inputs.resize(operation.inputs.size());
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    cli.input_file(operation.inputs[i].option, options.inputs[i], operation.inputs[i].about);
  }
  options.outputs.resize(operation.outputs.size());
  for (size_t i = 0; i < options.outputs.size(); ++i) {
    cli.output_file(operation.outputs[i].option, options.outputs[i], operation.outputs[i].about);
  }
  cli.flag("--causal", options.causal, "hide key j from query i when j > i + (Lkv - Lq)");
  const auto has = [&](uint32_t feature) { return (program.features & feature) != 0; };
  // Programs for a device refuse features that their chapter does not have yet. Other programs do
  // not have these options.
  const auto knows = [&](uint32_t feature) { return has(feature) || program.has_device; };
  if (knows(WINDOW)) {
    cli.text("--window", options.window,
             "L,R: query i sees keys i + (Lkv - Lq) - L up to ... + R; -1: no limit");
  }
  if (knows(KV_HEADS)) {
    cli.integer("--kv-heads", options.kv_heads, 1, kMostElements,
                "heads of K and V [as many as of Q]");
  }
  if (knows(PACKED)) {
    cli.text("--cu-seqlens-q", options.q_starts,
             "0,a,b,...: sequences packed into one, by where each begins in Q, and the last ends");
    cli.text("--cu-seqlens-k", options.kv_starts, "the same of K and V");
  }
  if (knows(SOFTCAP)) {
    cli.real("--softcap", options.softcap, "C: scores pass through C tanh(score / C)");
  }
  if (knows(ALIBI)) {
    cli.flag("--alibi", options.alibi,
             "scores fall by 2^(-8 (h + 1) / H) for each key of distance");
  }
  if (knows(STRIDES)) {
    cli.choice("--layout", options.request.layout, {"bhld", "blhd"},
               "of Q, K, V and O in the kernel's memory [bhld]");
  }
  cli.real("--scale", options.scale, "of the scores [1/sqrt(D)]");
  cli.real("--input-scale", options.input_scale, "multiplies Q: sharper softmax [1]");
  cli.real("--v-scale", options.v_scale, "multiplies V [1]");
  cli.real("--ramp", options.ramp,
           "X: not random; the last query scores X j with key j, those before it evenly less");
  std::vector<std::string> dtypes;
  for (const Dtype dtype : program.dtypes) dtypes.push_back(name(dtype));
  cli.choice("--dtype", options.dtype, dtypes,
             std::string("element type [") + dtypes.front() + "]");
  cli.texts("--break", options.breaks, "switch one load-bearing line off (repeatable)");
  cli.flag("--list-breaks", options.list_breaks, "list the breaks and exit");
  cli.flag("--profile", options.request.profile, "print what was counted");
  cli.flag("--bench", options.request.bench, "measure speed");
  cli.output_file("--json", options.json, "write the report to this file");
  if (program.has_device) {
    options.request.device = "auto";
    cli.choice("--device", options.request.device, {"auto", "gpu", "emulator"},
               "where to run [auto: the GPU if there is one]");
    cli.integer("--schedule-seed", options.request.schedule_seed, 0,
                std::numeric_limits<int64_t>::max(), "order of the emulator's threads [0]");
    cli.output_file("--events", options.request.events,
                    "write the emulator's event log to this file");
    cli.flag("--i-know", options.request.i_know,
             "run on the GPU even a break whose behaviour is undefined there");
  }
  program.add_options(cli);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Parses "B,H,Lq,Lkv,D" with every size at least 1.
Shape parse_shape(const std::string& text) {
  const std::vector<std::string> parts = split(text);
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

std::vector<int64_t> parse_starts(const std::string& option, const std::string& text) {
  std::vector<int64_t> starts;
  for (const std::string& part : split(text)) {
    starts.push_back(parse_integer(part, option + " " + shown(text) + ": start", 0, kMostElements));
  }
  return starts;
}

// Sets the options of `problem` that hide or change scores. `problem` already has its shape.
void take_mask(const Options& options, const Cli& cli, const AttentionProgram& program,
               Problem& problem) {
  const auto given = [&](uint32_t feature, const char* option) {
    return (program.features & feature) && cli.given(option);
  };
  problem.causal = options.causal;
  if (given(WINDOW, "--window")) {
    const std::vector<std::string> sides = split(options.window);
    const std::string what = "--window " + shown(options.window);
    if (sides.size() != 2) throw InputError(what + ": expected two numbers L,R");
    problem.window_left = parse_integer(sides[0], what + ": L", -1, kMostElements);
    problem.window_right = parse_integer(sides[1], what + ": R", -1, kMostElements);
  }
  if (given(PACKED, "--cu-seqlens-q") != given(PACKED, "--cu-seqlens-k")) {
    throw InputError("--cu-seqlens-q and --cu-seqlens-k go together: give both");
  }
  if (given(PACKED, "--cu-seqlens-q")) {
    problem.q_starts = parse_starts("--cu-seqlens-q", options.q_starts);
    problem.kv_starts = parse_starts("--cu-seqlens-k", options.kv_starts);
  }
  if (given(SOFTCAP, "--softcap")) {
    if (!(options.softcap > 0)) throw InputError("--softcap: expected a number above 0");
    problem.softcap = options.softcap;
  }
  problem.alibi = options.alibi;
  check_mask(problem);
}

Problem make_problem(const AttentionProgram& program, const Options& options, const Cli& cli,
                     bool* two_dimensional) {
  Dtype dtype = program.dtypes.front();
  for (const Dtype accepted : program.dtypes) {
    if (options.dtype == name(accepted)) dtype = accepted;
  }
  const std::vector<OperandName>& inputs = program.operation->inputs;
  size_t files = cli.given("--q") + cli.given("--k") + cli.given("--v");
  std::string also;
  for (const OperandName& input : inputs) {
    files += cli.given(input.option);
    also += std::string(" ") + input.option;
  }
  if (files != 0 && files != 3 + inputs.size()) {
    throw InputError(inputs.empty() ? "--q, --k and --v go together: give all three"
                                    : "--q --k --v" + also + " go together: give all of them");
  }
  for (const char* option : {"--shape", "--seed", "--ramp"}) {
    if (files == 0 || !cli.given(option)) continue;
    throw InputError(std::string(option) + " makes the input: give it or --q --k --v" + also +
                     ", not both");
  }
  *two_dimensional = false;
  Problem problem;
  const bool grouped = (program.features & KV_HEADS) != 0 && cli.given("--kv-heads");
  if (files != 0) {
    problem =
        load_problem(options.q, options.k, options.v, dtype, options.input_scale, two_dimensional);
    if (problem.group > 1 && !(program.features & KV_HEADS)) {
      throw InputError("K and V have fewer heads than Q: that comes with chapter 09");
    }
    if (grouped && options.kv_heads != problem.kv_heads()) {
      throw InputError("--kv-heads " + std::to_string(options.kv_heads) + ": the files have " +
                       std::to_string(problem.kv_heads()));
    }
    take_mask(options, cli, program, problem);
  } else {
    const Shape shape = cli.given("--shape") ? parse_shape(options.shape) : program.default_shape;
    if (grouped && shape.heads % options.kv_heads != 0) {
      throw InputError("--kv-heads " + std::to_string(options.kv_heads) +
                       ": expected a divisor of " + std::to_string(shape.heads) +
                       ", the heads of Q");
    }
    Problem no_values{shape, dtype, 1, false, {}, {}, {}};
    no_values.group = grouped ? shape.heads / options.kv_heads : 1;
    take_mask(options, cli, program, no_values);
    program.validate(no_values);  // before the time for random numbers is spent
    problem = random_problem(shape, dtype, static_cast<uint64_t>(options.seed), options.input_scale,
                             no_values.group);
    take_mask(options, cli, program, problem);
    if (cli.given("--ramp")) make_ramp(problem, options.ramp);
  }
  if (cli.given("--v-scale")) scale_values(problem, options.v_scale);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<int64_t> shape = inputs[i].shape(problem);
    problem.more.push_back(files != 0 ? load_values(options.inputs[i], dtype, shape)
                                      : random_values(shape, dtype, options.seed, i));
  }
  if (cli.given("--scale")) {
    if (options.scale != 0 && static_cast<float>(options.scale) == 0) {
      throw InputError("--scale " + shown(options.scale) +
                       ": is 0 in fp32, whose smallest number is 1.4e-45");
    }
    problem.scale = options.scale;
  }
  program.prepare(problem);
  return problem;
}

// Throws InputError if scores exceed fp32, because then no algorithm can be correct. Kernels
// compute Q K.T before they scale it, some of them by scale · log2(e).
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
    throw InputError(
        "Q K.T or scale * Q K.T could pass 3.4e38, the largest fp32 number: choose a "
        "smaller --scale or --input-scale, or smaller values");
  }
}

nlohmann::json report(const AttentionProgram& program, const Problem& problem,
                      const Options& options, const Outcome& outcome, const Verdict& verdict) {
  const Shape& shape = problem.shape;
  nlohmann::json json;
  json["chapter"] = program.name;
  json["device"] = outcome.device;
  json["dtype"] = name(problem.dtype);
  json["shape"] = {{"batch", shape.batch},
                   {"heads", shape.heads},
                   {"q", shape.q},
                   {"kv", shape.kv},
                   {"dim", shape.dim}};
  json["causal"] = problem.causal;
  if (problem.group > 1) json["kv_heads"] = problem.kv_heads();
  if (problem.window_left >= 0 || problem.window_right >= 0) {
    json["window"] = {problem.window_left, problem.right()};
  }
  if (!problem.q_starts.empty()) {
    json["cu_seqlens_q"] = problem.q_starts;
    json["cu_seqlens_k"] = problem.kv_starts;
  }
  if (problem.softcap > 0) json["softcap"] = problem.softcap;
  if (problem.alibi) json["alibi"] = true;
  if (!problem.lengths.empty()) json["cache_seqlens"] = problem.lengths;
  json["breaks"] = options.breaks;
  json["check"] = *verdict.report;
  json["time_ms"] = json_number(outcome.time_ms);
  json["profile"] = outcome.profile ? *outcome.profile : nlohmann::json::object();
  json["hazards"] = outcome.hazards ? *outcome.hazards : nlohmann::json::array();
  return json;
}

// Returns the properties beyond a plain problem: ", causal, 2 heads of K and V".
std::string in_words(const Problem& problem) {
  std::string words;
  if (problem.causal) words += ", causal";
  if (problem.window_left >= 0 || problem.window_right >= 0) {
    words +=
        ", window " + std::to_string(problem.window_left) + "," + std::to_string(problem.right());
  }
  if (problem.group > 1) {
    words += ", " + std::to_string(problem.kv_heads()) + " heads of K and V";
  }
  if (!problem.q_starts.empty()) {
    words += ", " + std::to_string(problem.q_starts.size() - 1) + " sequences";
  }
  if (problem.softcap > 0) {
    char number[32];
    std::snprintf(number, sizeof number, ", softcap %g", problem.softcap);
    words += number;
  }
  return words + (problem.alibi ? ", ALiBi" : "");
}

std::string indented(const std::string& lines) {
  std::string text;
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += "             ";
  }
  return text;
}

// Returns the result for a comparison with another run. A verdict on two passes has no counts of
// its own.
RunResult result_of(const Outcome& outcome, const Verdict& verdict) {
  RunResult result;
  result.device = outcome.device;
  result.passed = verdict.passed;
  result.elements = verdict.report->value("elements", int64_t{0});
  result.mismatches = verdict.report->value("mismatches", int64_t{0});
  result.nonfinite = verdict.report->value("nonfinite", int64_t{0});
  const auto error = verdict.report->find("max_abs_error");
  if (error != verdict.report->end() && error->is_number()) result.max_abs_error = *error;
  if (outcome.hazards) {
    for (const nlohmann::json& hazard : *outcome.hazards)
      result.hazards.push_back(hazard.value("kind", ""));
  }
  result.counters = outcome.counters;
  return result;
}

int run(const AttentionProgram& program, int argc, char** argv, BreakRun& this_run) {
  if (argc == 1 && program.story) return program.story();
  Options options;
  Cli cli(program.name, program.about);
  declare(cli, program, options);
  const std::string command = cli.parse(argc, argv);
  if (!command.empty()) return program.command(command);
  if (options.list_breaks) {
    std::cout << list_breaks(program.demos);
    return kAgreed;
  }
  options.request.breaks = parse_breaks(options.breaks, program.breaks);
  const Operation& operation = *program.operation;
  const auto refuse_without = [&](uint32_t feature, const char* option) {
    if ((program.features & feature) == feature || !cli.given(option)) return;
    const bool in_02 = (feature & (CAUSAL | LSE | ALIBI)) != 0;
    throw InputError(std::string(option) + ": not in this chapter; chapter 09 has it" +
                     (in_02 ? ", and in fp32 chapter 02" : ""));
  };
  refuse_without(CAUSAL, "--causal");
  for (const OperandName& output : operation.outputs) refuse_without(output.feature, output.option);
  if (program.has_device) {
    refuse_without(WINDOW, "--window");
    refuse_without(KV_HEADS, "--kv-heads");
    refuse_without(PACKED, "--cu-seqlens-q");
    refuse_without(PACKED, "--cu-seqlens-k");
    refuse_without(SOFTCAP, "--softcap");
    refuse_without(ALIBI, "--alibi");
    refuse_without(STRIDES, "--layout");
  }

  bool two_dimensional = false;
  const Problem problem = make_problem(program, options, cli, &two_dimensional);
  check_scores_fit(problem);
  program.validate(problem);
  const Shape& shape = problem.shape;

  std::vector<std::vector<float>> outputs;
  for (const OperandName& output : operation.outputs) {
    const bool has_it = (program.features & output.feature) == output.feature;
    outputs.emplace_back(has_it ? elements_of(output.shape(problem)) : 0,
                         std::numeric_limits<float>::quiet_NaN());
  }
  options.request.seed = options.seed;
  if (this_run.silent) options.request.events.clear();
  Outcome outcome = program.run(problem, options.request, outputs);
  const Verdict verdict = operation.check(problem, outputs, static_cast<uint64_t>(options.seed));

  this_run.result = result_of(outcome, verdict);
  const bool agreed = verdict.passed && !outcome.hazardous;
  if (this_run.silent) {
    this_run.result.outputs = std::move(outputs);
    this_run.result.outputs.push_back(std::move(outcome.unrounded));
    return agreed ? kAgreed : kDisagreed;
  }
  std::cout << this_run.heading << program.name << ": "
            << (outcome.title.empty() ? "" : outcome.title + ", ") << name(problem.dtype)
            << ", shape " << to_string(shape) << in_words(problem) << ", on " << outcome.device
            << '\n';
  for (const std::string& broken : options.breaks) std::cout << "  broken     " << broken << '\n';
  if (!times_hidden()) {
    const double flops = operation.flops(problem);
    char text[128];
    std::snprintf(text, sizeof text, "  time       %.3f ms (%.1f GFLOP/s)\n", outcome.time_ms,
                  flops / outcome.time_ms * 1e-6);
    std::cout << text;
  }
  std::cout << outcome.notes << "  check      " << indented(verdict.text) << '\n';

  for (size_t i = 0; i < outputs.size(); ++i) {
    if (options.outputs[i].empty()) continue;
    const std::vector<int64_t> sizes = operation.outputs[i].shape(problem);
    write_npy(options.outputs[i], outputs[i], std::span(sizes).subspan(two_dimensional ? 2 : 0));
  }
  if (!options.json.empty()) {
    this_run.json = options.json;
    this_run.report = shared_json(report(program, problem, options, outcome, verdict));
  }
  this_run.result.outputs = std::move(outputs);
  if (!agreed) return kDisagreed;
  if (options.request.bench && program.bench) program.bench(problem, options.request);
  return kAgreed;
}

}  // namespace

bool times_hidden() { return std::getenv("FA_HIDE_TIMES") != nullptr; }

int run_attention_program(const AttentionProgram& program, int argc, char** argv) {
  static const AttentionProgram* current;
  current = &program;
  return guarded_main(argc, argv, [](int count, char** arguments) {
    return run_breakable(current->demos, count, arguments, [](int c, char** v, BreakRun& this_run) {
      return run(*current, c, v, this_run);
    });
  });
}

}  // namespace fa
