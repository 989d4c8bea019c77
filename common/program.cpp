#include "common/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "common/error.hpp"
#include "common/npy.hpp"
#include "common/text.hpp"
#include "common/words.hpp"

namespace fa {
namespace {

// An output of a pass.
struct Output {
  const char* option;
  const char* about;
  std::vector<float> Tensors::*values;
  std::vector<int64_t> (*shape)(const Problem&);
  uint32_t pass;
  uint32_t feature = 0;  // that a program needs to have it, or 0 if all have it
};
constexpr Output OUTPUTS[] = {
    {"--out", "write O to this .npy file (float32)", &Tensors::o, like_q, FORWARD},
    {"--lse", "write the log-sum-exp of each row to this .npy file (float32)", &Tensors::lse,
     rows_of_q, FORWARD, LSE},
    {"--dq", "write dQ to this .npy file (float32)", &Tensors::dq, like_q, BACKWARD},
    {"--dk", "write dK to this .npy file (float32)", &Tensors::dk, like_k, BACKWARD},
    {"--dv", "write dV to this .npy file (float32)", &Tensors::dv, like_k, BACKWARD},
    {"--dsinks", "write the gradients of the sinks to this .npy file (float32)", &Tensors::d_sinks,
     like_sinks, BACKWARD, SINKS},
};

// Parses "B,H,Lq,Lkv,D" with every size at least 1.
Shape parse_shape(const std::string& text) {
  const std::vector<std::string> parts = split_at_commas(text);
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
  // Kernels divide a sink by the scale, because their maximum is not scaled yet.
  for (const float sink : problem.sinks) {
    if (std::isinf(sink) || std::isfinite(sink / static_cast<float>(problem.scale))) continue;
    throw InputError("a sink of " + fa::shown(sink) +
                     " / scale passes 3.4e38, the largest fp32 "
                     "number: choose a larger --scale, or smaller sinks");
  }
}

// Returns the operations of the passes. A backward pass has five matrix products, a forward pass
// two.
double flops(uint32_t passes, const Problem& problem) {
  return ((passes & FORWARD ? 1 : 0) + (passes & BACKWARD ? 2.5 : 0)) * forward_flops(problem);
}

bool has(const Program& program, const Output& output) {
  return (program.passes & output.pass) && (program.features & output.feature) == output.feature;
}

nlohmann::json report_of(const Arguments& args, const Tensors& tensors, const Run& run,
                         const Verdict& verdict) {
  const Shape& shape = tensors.shape;
  nlohmann::json json;
  json["chapter"] = args.program.name;
  json["device"] = run.device;
  json["dtype"] = name(tensors.dtype);
  json["shape"] = {{"batch", shape.batch},
                   {"heads", shape.heads},
                   {"q", shape.q},
                   {"kv", shape.kv},
                   {"dim", shape.dim}};
  json["causal"] = tensors.causal;
  add_masks(json, tensors);
  json["breaks"] = args.breaks;
  json["check"] = *verdict.report;
  json["time_ms"] = json_number(run.time_ms);
  json["profile"] = run.profile ? *run.profile : nlohmann::json::object();
  json["hazards"] = run.hazards ? *run.hazards : nlohmann::json::array();
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

// Returns the result for a comparison with another run. A verdict on two passes has no counts at
// its top level.
RunResult result_of(const Run& run, const Verdict& verdict) {
  RunResult result;
  result.device = run.device;
  result.passed = verdict.passed;
  result.elements = verdict.report->value("elements", int64_t{0});
  result.mismatches = verdict.report->value("mismatches", int64_t{0});
  result.nonfinite = verdict.report->value("nonfinite", int64_t{0});
  const auto error = verdict.report->find("max_abs_error");
  if (error != verdict.report->end() && error->is_number()) result.max_abs_error = *error;
  if (run.hazards) {
    for (const nlohmann::json& hazard : *run.hazards)
      result.hazards.push_back(hazard.value("kind", ""));
  }
  result.counters = run.counters;
  return result;
}

}  // namespace

Arguments::Arguments(Invocation& call_, const Program& program_,
                     const std::function<void(Cli&)>& own)
    : call(call_), program(program_), cli_(program.name, program.about) {
  declare(own);
  command = cli_.parse(call.argc, call.argv);
  if (command.empty()) check();
}

void Arguments::declare(const std::function<void(Cli&)>& own) {
  cli_.text("--shape", shape,
            "B,H,Lq,Lkv,D of a random input [" + to_string(program.default_shape) + "]");
  cli_.integer("--seed", seed, 0, std::numeric_limits<int64_t>::max(),
               "seed of a random input [0]");
  cli_.input_file("--q", files["--q"],
                  "Q from a .npy file, float16 or float32, [B,H,L,D] or [L,D]");
  cli_.input_file("--k", files["--k"], "K, likewise");
  cli_.input_file("--v", files["--v"], "V, likewise");
  if (program.passes & BACKWARD) {
    cli_.input_file("--do", files["--do"], "dO, the gradient of the loss by O, likewise");
  }
  for (const Output& output : OUTPUTS) {
    if ((program.passes & output.pass) == 0) continue;
    cli_.output_file(output.option, files[output.option], output.about);
    if (!has(program, output)) cli_.unlist(output.option);
  }
  masks.declare(cli_, program.features, program.has_device);
  if (program.has_device || (program.features & STRIDES)) {
    cli_.choice("--layout", layout, {"bhld", "blhd"},
                "layout of Q, K, V and O in the kernel's memory [bhld]");
    if ((program.features & STRIDES) == 0) cli_.unlist("--layout");
  }
  cli_.real("--scale", scale, "factor of the scores [1/sqrt(D)]");
  cli_.real("--input-scale", input_scale, "multiplies Q, which makes the softmax sharper [1]");
  cli_.real("--v-scale", v_scale, "multiplies V [1]");
  cli_.real("--ramp", ramp,
            "scores that rise by X per key for the last query, and evenly less for earlier ones");
  std::vector<std::string> dtypes;
  for (const Dtype one : program.dtypes) dtypes.push_back(name(one));
  cli_.choice("--dtype", dtype_, dtypes, std::string("element type [") + dtypes.front() + "]");
  cli_.texts("--break", breaks, "switch one load-bearing line off (repeatable)");
  cli_.flag("--list-breaks", list_breaks_, "list the breaks and exit");
  cli_.flag("--profile", profile, "print what was counted");
  cli_.flag("--bench", bench, "measure speed");
  cli_.output_file("--json", json, "write the report to this file");
  if (program.has_device) {
    device = "auto";
    cli_.choice("--device", device, {"auto", "gpu", "emulator"},
                "where to run [auto: the GPU if there is one]");
    cli_.integer("--schedule-seed", schedule_seed, 0, std::numeric_limits<int64_t>::max(),
                 "order of the emulator's threads [0]");
    cli_.output_file("--events", events, "write the emulator's event log to this file");
    cli_.flag("--allow-undefined", allow_undefined,
              "run on the GPU even a break whose behaviour is undefined there");
  }
  for (const IntegerOption& option : program.options) options_.push_back(option.fallback);
  for (size_t i = 0; i < options_.size(); ++i) {
    const IntegerOption& option = program.options[i];
    cli_.integer(option.name, options_[i], option.min, option.max, option.about);
  }
  if (own) own(cli_);
}

void Arguments::check() {
  if (list_breaks_) throw InputError("--list-breaks: expected no other option");
  options.assign(options_.begin(), options_.end());
  break_bits = parse_breaks(breaks, program.breaks);
  for (const Dtype accepted : program.dtypes) {
    if (dtype_.empty() || dtype_ == name(accepted)) {
      dtype = accepted;
      break;
    }
  }
  masks.check();
  for (const Output& output : OUTPUTS) {
    if ((program.passes & output.pass) && !has(program, output) && given(output.option))
      refuse_option(output.option, output.feature);
  }
  if (program.has_device && !(program.features & STRIDES) && given("--layout")) {
    refuse_option("--layout", STRIDES);
  }
  if (call.silent) events.clear();
  if ((program.passes & BACKWARD) && given("--dsinks") && !given("--sinks")) {
    throw InputError("--dsinks goes with --sinks: give both");
  }

  const bool backward = (program.passes & BACKWARD) != 0;
  const std::string all = std::string("--q --k --v") + (backward ? " --do" : "");
  const int given_files = given("--q") + given("--k") + given("--v") + (backward && given("--do"));
  if (given_files != 0 && given_files != (backward ? 4 : 3)) {
    throw InputError(backward ? all + " go together: give all of them"
                              : "--q, --k and --v go together: give all three");
  }
  for (const char* option : {"--shape", "--seed", "--ramp"}) {
    if (given_files == 0 || !given(option)) continue;
    throw InputError(std::string(option) + " makes the input: give it or " + all + ", not both");
  }
}

Tensors make_tensors(const Arguments& args, const std::function<void(const Problem&)>& validate,
                     const std::function<void(Problem&)>& prepare) {
  const Program& program = args.program;
  const auto accept = [&](const Problem& problem) {
    if (program.check_shape) program.check_shape(problem.shape);
    if (validate) validate(problem);
  };
  const bool from_files = args.given("--q");
  Tensors tensors;
  Problem& problem = tensors;
  if (from_files) {
    problem = load_problem(args.files.at("--q"), args.files.at("--k"), args.files.at("--v"),
                           args.dtype, args.input_scale, &tensors.two_dimensional);
    args.masks.set(problem);
  } else {
    problem.shape = args.given("--shape") ? parse_shape(args.shape) : program.default_shape;
    problem.dtype = args.dtype;
    args.masks.set(problem);
    accept(problem);  // before the time for random numbers is spent
    problem = random_problem(problem.shape, args.dtype, static_cast<uint64_t>(args.seed),
                             args.input_scale, problem.group);
    args.masks.set(problem);
    if (args.given("--ramp")) make_ramp(problem, args.ramp);
  }
  if (args.given("--v-scale")) scale_values(problem, args.v_scale);
  if (program.passes & BACKWARD) {
    const std::vector<int64_t> shape = like_q(problem);
    problem.d_o = from_files ? load_values(args.files.at("--do"), args.dtype, shape)
                             : random_values(shape, args.dtype, args.seed, 0);
  }
  if (args.given("--scale")) {
    if (args.scale != 0 && static_cast<float>(args.scale) == 0) {
      throw InputError("--scale " + shown(args.scale) +
                       ": is 0 in fp32, whose smallest number is 1.4e-45");
    }
    problem.scale = args.scale;
  }
  args.masks.set_sinks(problem, static_cast<uint64_t>(args.seed));
  if (prepare) prepare(problem);
  check_scores_fit(problem);
  accept(problem);
  for (const Output& output : OUTPUTS) {
    if (!has(program, output)) continue;
    (tensors.*output.values)
        .assign(elements_of(output.shape(problem)), std::numeric_limits<float>::quiet_NaN());
  }
  return tensors;
}

int report(const Arguments& args, Tensors& tensors, const Run& run, const Verdict& verdict) {
  Invocation& call = args.call;
  call.result = result_of(run, verdict);
  const bool agreed = verdict.passed && !run.hazardous;
  if (!call.silent) {
    std::string title = args.program.name + (": " + run.title) + (run.title.empty() ? "" : ", ") +
                        name(tensors.dtype) + ", shape " + to_string(tensors.shape) +
                        in_words(tensors) + ", on " + run.device;
    if (title.size() > 80) title.replace(title.rfind(", ", 79) + 1, 1, "\n  ");
    std::cout << call.heading << title << '\n';
    for (const std::string& broken : args.breaks) std::cout << "  broken     " << broken << '\n';
    if (!times_hidden()) {
      std::cout << text("  time       %.3f ms (%.1f GFLOP/s)\n", run.time_ms,
                        flops(args.program.passes, tensors) / run.time_ms * 1e-6);
    }
    std::cout << wrapped(run.notes + "  check      " + indented(verdict.text) + '\n');
    if (!args.json.empty()) {
      call.json = args.json;
      call.report = shared_json(report_of(args, tensors, run, verdict));
    }
  }
  for (const Output& output : OUTPUTS) {
    if (!has(args.program, output)) continue;
    std::vector<float>& values = tensors.*output.values;
    const std::string& path = args.files.at(output.option);
    if (!path.empty() && !call.silent) {
      const std::vector<int64_t> sizes = output.shape(tensors);
      const bool two_dimensional = tensors.two_dimensional && sizes.size() > 2;
      write_npy(path, values, std::span(sizes).subspan(two_dimensional ? 2 : 0));
    }
    call.result.outputs.push_back(std::move(values));
  }
  call.result.outputs.push_back(run.unrounded);
  if (!agreed) return kDisagreed;
  if (!call.silent && args.bench && run.bench) run.bench();
  return kAgreed;
}

bool times_hidden() { return std::getenv("FA_HIDE_TIMES") != nullptr; }

}  // namespace fa
