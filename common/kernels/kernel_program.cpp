#include "common/kernels/kernel_program.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/file.hpp"
#include "common/gpu/runtime.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"

namespace fa {
namespace {

constexpr bf16 UNWRITTEN = {0x7fff};  // a NaN

constexpr Break KERNEL_BREAKS[] = {
    {"no-max", NO_MAX, "the row maximum is not subtracted"},
    {"no-rescale", NO_RESCALE, "O and l are not rescaled when the maximum grows"},
    {"unmasked-tail", UNMASKED_TAIL, "keys past the last one are not masked"},
    {"shuffle-mask-0x10", SHUFFLE_MASK_0X10, "the second shuffle of a quad uses 0x10 instead of 2"},
    {"conditional-commit", CONDITIONAL_COMMIT, "no commit when there was no tile to copy"},
    {"missing-wait", MISSING_WAIT, "K is read without waiting for its copy"},
    {"missing-barrier", MISSING_BARRIER, "a block_sync of the main loop is left out"},
    {"swizzle-one-side", SWIZZLE_ONE_SIDE, "K is written swizzled and read row-major"},
    {"wait-too-few", WAIT_TOO_FEW, "the wait for V lets one group too many stay in flight"},
    {"divergent-barrier", DIVERGENT_BARRIER, "only warp 0 arrives at one block_sync of the loop"},
};

// Breaks of the synchronization: the emulator reports them, real hardware does whatever it does.
constexpr uint32_t UNDEFINED_ON_A_GPU =
    CONDITIONAL_COMMIT | MISSING_WAIT | MISSING_BARRIER | WAIT_TOO_FEW | DIVERGENT_BARRIER;

std::vector<Break> breaks_of(uint32_t mask) {
  std::vector<Break> breaks;
  for (const Break& b : KERNEL_BREAKS) {
    if (mask & b.bit) breaks.push_back(b);
  }
  return breaks;
}

ForwardArgs arguments(const Problem& problem, const bf16* q, const bf16* k, const bf16* v, bf16* o,
                      uint32_t breaks, int stages) {
  const Shape& shape = problem.shape;
  return {q, k, v, o, static_cast<int>(shape.batch * shape.heads), static_cast<int>(shape.q),
          static_cast<int>(shape.kv), static_cast<int>(shape.dim),
          static_cast<float>(problem.scale), breaks, stages};
}

std::string place(const simt::Site& site) {
  std::string_view file = site.file;
  file = file.substr(file.rfind('/') + 1);
  return site.line == 0 ? "" : std::string(file) + ":" + std::to_string(site.line);
}

nlohmann::json hazards_as_json(const std::vector<simt::Hazard>& hazards) {
  nlohmann::json list = nlohmann::json::array();
  for (const simt::Hazard& hazard : hazards) {
    list.push_back({{"kind", simt::hazard_name(hazard.kind)},
                    {"where", place(hazard.where)},
                    {"other", place(hazard.other)},
                    {"count", hazard.count},
                    {"block", hazard.block},
                    {"thread", hazard.thread},
                    {"other_thread", hazard.other_thread},
                    {"step", hazard.step},
                    {"other_step", hazard.other_step},
                    {"text", hazard.text}});
  }
  return list;
}

std::string events_as_json(const simt::Report& report) {
  nlohmann::json list = nlohmann::json::array();
  for (const simt::Event& event : report.events) {
    nlohmann::json entry = {{"kind", simt::event_name(event.kind)},
                            {"block", event.block},
                            {"warp", event.warp},
                            {"step", event.step},
                            {"where", place(event.where)}};
    if (event.group >= 0) entry["group"] = event.group;
    if (event.pending_groups >= 0) entry["pending_groups"] = event.pending_groups;
    if (event.bytes > 0) entry["bytes"] = event.bytes;
    if (event.kind == simt::EventKind::kCopyIssue || event.kind == simt::EventKind::kLdmatrix) {
      entry["shared_address"] = event.address;
    }
    if (event.kind == simt::EventKind::kCopyIssue) {
      entry["source"] = simt::describe_address(reinterpret_cast<const void*>(event.source));
    }
    list.push_back(std::move(entry));
  }
  const nlohmann::json log = {{"events", std::move(list)},
                              {"hazards", hazards_as_json(report.hazards)}};
  return log.dump(1) + "\n";
}

std::string hazards_as_text(const std::vector<simt::Hazard>& hazards) {
  std::string text;
  for (const simt::Hazard& hazard : hazards) text += "  hazard     " + hazard.text + "\n";
  return text;
}

nlohmann::json counters_as_json(const simt::Counters& counters) {
  nlohmann::json json, estimates = nlohmann::json::array();
  for (const simt::CounterField& field : simt::kCounterFields) {
    json[field.name] = counters.*field.value;
    if (simt::is_estimate(counters, field.name)) estimates.push_back(field.name);
  }
  json["estimates"] = estimates;
  return json;
}

// One line a counter: the chapter before, this one.
std::string counters_as_text(const KernelChapter& chapter, const simt::Counters& counters,
                             const simt::Counters* previous) {
  char line[128];
  std::string text;
  const auto add = [&](const std::string& name, const std::string& before, const std::string& now,
                       const char* remark) {
    std::snprintf(line, sizeof line, "  %-30s %12s %12s%s\n", name.c_str(),
                  previous ? before.c_str() : "", now.c_str(), remark);
    text += line;
  };
  add("counted on the emulator", chapter.previous_name.substr(0, 4), chapter.name.substr(0, 4), "");
  for (const simt::CounterField& field : simt::kCounterFields) {
    add(field.name, previous ? std::to_string(previous->*field.value) : "",
        std::to_string(counters.*field.value),
        simt::is_estimate(counters, field.name) ? "  estimate" : "");
  }
  const auto ratio = [](const simt::Counters& c) {
    char number[32];
    std::snprintf(number, sizeof number, "%.2f",
                  static_cast<double>(c.shared_load_wavefronts) /
                      static_cast<double>(c.shared_load_wavefronts_ideal));
    return std::string(number);
  };
  add("load wavefronts for each ideal", previous ? ratio(*previous) : "", ratio(counters), "");
  return text;
}

// Where a request runs. `auto` takes the GPU unless only the emulator can answer.
bool wants_gpu(const Request& request) {
  const bool emulator_only =
      request.breaks != 0 || request.schedule_seed != 0 || !request.events.empty();
  if (request.i_know &&
      (request.device != "gpu" || (request.breaks & UNDEFINED_ON_A_GPU) == 0)) {
    throw InputError("--i-know: goes with --device gpu and a --break that is undefined there");
  }
  if (request.device == "auto") return !emulator_only && gpu_problem().empty();
  if (request.device != "gpu") return false;
  for (const Break& b : KERNEL_BREAKS) {
    if (!request.i_know && (request.breaks & b.bit & UNDEFINED_ON_A_GPU)) {
      throw InputError(std::string("--break ") + b.name +
                       " is undefined behaviour on a GPU, which may hang or pass by luck: --device "
                       "emulator shows the hazard, --i-know runs it all the same");
    }
  }
  if (!gpu_problem().empty()) throw InputError("--device gpu: " + gpu_problem());
  if (!request.events.empty() || request.schedule_seed != 0) {
    throw InputError("--events and --schedule-seed: only --device emulator has them");
  }
  return true;
}

Outcome forward(const KernelChapter& chapter, int stages, const Problem& problem,
                const Request& request, std::span<float> o) {
  Outcome outcome;
  if (chapter.max_stages > 0) outcome.title = std::to_string(stages) + " stages";
  const bool gpu = wants_gpu(request);
  simt::Config config;
  config.schedule_seed = static_cast<uint64_t>(request.schedule_seed);
  config.events = !request.events.empty();
  if (gpu) {
    outcome.device = gpu_name();
    outcome.time_ms = run_on_gpu(chapter.gpu, problem, o, 1, request.breaks, stages);
    config.hazards = false;
    if (!request.profile) return outcome;
  }
  EmulatorRun run;
  std::vector<float> scratch(gpu ? o.size() : 0);
  const double emulator_ms = time_ms([&] {
    run = run_on_emulator(chapter.emulator, problem, gpu ? std::span<float>(scratch) : o, config,
                          request.breaks, stages);
  });
  if (!gpu) {
    outcome.device = "emulator";
    outcome.time_ms = emulator_ms;
    outcome.hazardous = !run.report.hazards.empty();
    outcome.notes = hazards_as_text(run.report.hazards);
    outcome.hazards_json = hazards_as_json(run.report.hazards).dump();
  }
  if (!request.events.empty()) write_file(request.events, run.events_json);
  if (request.profile) {
    simt::Counters previous;
    nlohmann::json profile = counters_as_json(run.report.counters);
    if (chapter.previous_emulator) {
      scratch.resize(o.size());
      config.hazards = config.events = false;
      previous =
          run_on_emulator(chapter.previous_emulator, problem, scratch, config).report.counters;
      profile["previous"] = counters_as_json(previous);
    }
    outcome.notes += counters_as_text(chapter, run.report.counters,
                                      chapter.previous_emulator ? &previous : nullptr);
    outcome.profile_json = profile.dump();
  }
  return outcome;
}

void bench(const KernelChapter& chapter, int stages, const Shape& default_shape,
           const Problem& problem, const Request& request) {
  if (!wants_gpu(request)) {
    std::cout << "  bench      the emulator's time says nothing about a GPU's; "
                 "./learn bench simt measures the emulator itself\n";
    return;
  }
  // The default shape is made for reading counters: too small to fill a GPU.
  const bool small = problem.shape == default_shape;
  const Shape shape = small ? Shape{1, 8, 4096, 8192, 128} : problem.shape;
  const Problem large = small ? random_problem(shape, Dtype::bf16, 0) : problem;
  std::vector<float> o(shape.q_elements());
  const double ms = run_on_gpu(chapter.gpu, large, o, 20, request.breaks, stages);
  const double tflops = shape.flops() / ms * 1e-9, limit = gpu_mma_limit_tflops();
  const double once = 2.0 * (shape.q_elements() + shape.kv_elements()) * sizeof(bf16);
  const double rate = once / ms * 1e-6, copy = gpu_copy_limit_gbs();
  char lines[400];
  std::snprintf(lines, sizeof lines,
                "  bench      shape %s: %.3f ms, %.1f TFLOP/s, %.1f %% of the %.1f that mma.sync "
                "alone reaches here\n"
                "             Q, K, V and O once: %.1f GB/s, %.1f %% of the %.0f that a copy "
                "reaches here\n",
                to_string(shape).c_str(), ms, tflops, 100 * tflops / limit, limit, rate,
                100 * rate / copy, copy);
  std::cout << lines;
}

}  // namespace

void check_kernel_shape(const Shape& shape) {
  if (shape.dim != 64 && shape.dim != 128) {
    throw InputError("head size " + std::to_string(shape.dim) +
                     ": this chapter's kernel takes 64 and 128");
  }
  constexpr int64_t LONGEST = int64_t{1} << 30;
  if (shape.q > LONGEST || shape.kv > LONGEST || shape.batch * shape.heads > LONGEST) {
    throw InputError("shape " + to_string(shape) +
                     ": lengths and batch x heads may be up to 1073741824 in this chapter");
  }
}

EmulatorRun run_on_emulator(KernelBuild build, const Problem& problem, std::span<float> o,
                            const simt::Config& config, uint32_t breaks, int stages) {
  const Shape& shape = problem.shape;
  simt::Buffer<bf16> Q(shape.q_elements(), "Q"), K(shape.kv_elements(), "K");
  simt::Buffer<bf16> V(shape.kv_elements(), "V"), O(shape.q_elements(), "O");
  std::transform(problem.q.begin(), problem.q.end(), Q.begin(), to_bf16);
  std::transform(problem.k.begin(), problem.k.end(), K.begin(), to_bf16);
  std::transform(problem.v.begin(), problem.v.end(), V.begin(), to_bf16);
  std::fill(O.begin(), O.end(), UNWRITTEN);
  EmulatorRun run;
  run.report = simt::run(config, [&] {
    build(arguments(problem, Q.data(), K.data(), V.data(), O.data(), breaks, stages));
  });
  std::transform(O.begin(), O.end(), o.begin(), [](bf16 x) { return to_float(x); });
  if (config.events) run.events_json = events_as_json(run.report);
  return run;
}

double run_on_gpu(KernelBuild build, const Problem& problem, std::span<float> o, int runs,
                  uint32_t breaks, int stages) {
  require_gpu();
  std::vector<bf16> host(std::max(problem.q.size(), problem.k.size()));
  const auto bytes = [](const std::vector<float>& values) { return values.size() * sizeof(bf16); };
  GpuBuffer Q(bytes(problem.q), "Q"), K(bytes(problem.k), "K");
  GpuBuffer V(bytes(problem.v), "V"), O(bytes(problem.q), "O");
  const auto upload = [&](const std::vector<float>& values, GpuBuffer& buffer) {
    std::transform(values.begin(), values.end(), host.begin(), to_bf16);
    buffer.upload(host.data());
  };
  upload(problem.q, Q);
  upload(problem.k, K);
  upload(problem.v, V);
  std::fill(host.begin(), host.end(), UNWRITTEN);
  O.upload(host.data());
  const ForwardArgs args = arguments(
      problem, static_cast<bf16*>(Q.data()), static_cast<bf16*>(K.data()),
      static_cast<bf16*>(V.data()), static_cast<bf16*>(O.data()), breaks, stages);
  const double ms = gpu_time_ms(runs, [&] { build(args); });
  O.download(host.data());
  std::transform(host.begin(), host.begin() + o.size(), o.begin(),
                 [](bf16 x) { return to_float(x); });
  return ms;
}

int run_kernel_program(const KernelChapter& chapter, int argc, char** argv) {
  int64_t stages = 2;
  AttentionProgram program;
  program.name = chapter.name;
  program.about = chapter.about;
  program.default_shape = {1, 1, 128, 512, 128};
  program.breaks = breaks_of(chapter.breaks);
  program.dtypes = {Dtype::bf16};
  program.has_causal = false;
  program.has_device = true;
  if (chapter.max_stages > 0) {
    program.add_options = [&](Cli& cli) {
      cli.integer("--stages", stages, 2, chapter.max_stages, "buffers for K and for V [2]");
    };
  }
  program.validate = [](const Problem& problem) { check_kernel_shape(problem.shape); };
  program.forward = [&](const Problem& problem, const Request& request, std::span<float> o,
                        std::span<float>) {
    return forward(chapter, static_cast<int>(stages), problem, request, o);
  };
  program.bench = [&](const Problem& problem, const Request& request) {
    bench(chapter, static_cast<int>(stages), program.default_shape, problem, request);
  };
  return run_attention_program(program, argc, argv);
}

}  // namespace fa
