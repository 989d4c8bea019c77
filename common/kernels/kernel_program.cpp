#include "common/kernels/kernel_program.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/accuracy.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/runner.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"

namespace fa {
namespace {

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

// A descriptor has 64 bits, more than a number of JavaScript keeps: in hexadecimal.
nlohmann::json operand_as_json(const simt::EventOperand& operand) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%016llx",
                static_cast<unsigned long long>(operand.descriptor));
  return {{"descriptor", text},
          {"major", operand.mn_major ? "mn" : "k"},
          {"shared_address", operand.address}};
}

std::string event_log(const EmulatorRun& run) {
  nlohmann::json list = nlohmann::json::array();
  for (size_t i = 0; i < run.report.events.size(); ++i) {
    const simt::Event& event = run.report.events[i];
    nlohmann::json entry = {{"kind", simt::event_name(event.kind)},
                            {"block", event.block},
                            {"warp", event.warp},
                            {"step", event.step},
                            {"where", place(event.where)}};
    if (event.group >= 0) entry["group"] = event.group;
    if (event.pending_groups >= 0) entry["pending_groups"] = event.pending_groups;
    if (event.barrier > 0) entry["barrier"] = event.barrier;  // 0 is block_sync's
    if (event.bytes > 0) entry["bytes"] = event.bytes;
    const bool is_box = !event.coordinates.empty();
    if (event.kind == simt::EventKind::kCopyIssue || event.kind == simt::EventKind::kLdmatrix ||
        is_box) {
      entry["shared_address"] = event.address;
    }
    if (is_box) entry["coordinates"] = event.coordinates;
    if (event.mbarrier >= 0) {
      entry["mbarrier"] = event.mbarrier;
      entry["phase"] = event.phase;
    }
    if (event.parity >= 0) entry["parity"] = event.parity;
    if (event.n > 0) entry["n"] = event.n;
    if (event.a.descriptor != 0) entry["a"] = operand_as_json(event.a);
    if (event.b.descriptor != 0) entry["b"] = operand_as_json(event.b);
    if (!run.sources[i].empty()) entry["source"] = run.sources[i];
    list.push_back(std::move(entry));
  }
  nlohmann::json log = {{"events", std::move(list)},
                        {"hazards", hazards_as_json(run.report.hazards)}};
  for (const simt::TileRow& row : run.report.tiles) {
    nlohmann::json visits = nlohmann::json::array();
    for (const simt::TileVisit& visit : row.visits) visits.push_back({visit.column, visit.masked});
    log["tiles"].push_back({{"block", row.block},
                            {"row", row.row},
                            {"columns", row.columns},
                            {"visits", std::move(visits)}});
  }
  return log.dump(1) + "\n";
}

std::string hazards_as_text(const std::vector<simt::Hazard>& hazards) {
  std::string text;
  for (const simt::Hazard& hazard : hazards) text += "  hazard     " + hazard.text + "\n";
  return text;
}

// True if no hardware has confirmed the rule of that counter, or its value for the chapter.
bool is_estimate(const simt::Counters& counters, std::span<const char* const> unconfirmed,
                 const std::string& name) {
  return simt::is_estimate(counters, name) ||
         std::find(unconfirmed.begin(), unconfirmed.end(), name) != unconfirmed.end();
}

nlohmann::json counters_as_json(const simt::Counters& counters,
                                std::span<const char* const> unconfirmed) {
  nlohmann::json json, estimates = nlohmann::json::array();
  for (const simt::CounterField& field : simt::kCounterFields) {
    json[field.name] = counters.*field.value;
    if (is_estimate(counters, unconfirmed, field.name)) estimates.push_back(field.name);
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
  add("counted on the emulator", std::string(chapter.previous_name).substr(0, 4),
      chapter.short_name(), "");
  for (const simt::CounterField& field : simt::kCounterFields) {
    if (field.rare && counters.*field.value == 0) continue;
    add(field.name, previous ? std::to_string(previous->*field.value) : "",
        std::to_string(counters.*field.value),
        is_estimate(counters, chapter.unconfirmed, field.name) ? "  estimate" : "");
  }
  const auto ratio = [](const simt::Counters& c) {
    if (c.shared_load_wavefronts_ideal == 0) return std::string();
    char number[32];
    std::snprintf(number, sizeof number, "%.2f",
                  static_cast<double>(c.shared_load_wavefronts) /
                      static_cast<double>(c.shared_load_wavefronts_ideal));
    return std::string(number);
  };
  if (counters.shared_load_wavefronts_ideal != 0)
    add("load wavefronts for each ideal", previous ? ratio(*previous) : "", ratio(counters), "");
  return text;
}

struct TileCounts {
  int64_t visited = 0, masked = 0, skipped = 0;
};
TileCounts count_tiles(const std::vector<simt::TileRow>& rows) {
  TileCounts tiles;
  for (const simt::TileRow& row : rows) {
    const auto visited = static_cast<int64_t>(row.visits.size());
    tiles.visited += visited;
    tiles.skipped += row.columns - visited;
    for (const simt::TileVisit& visit : row.visits) tiles.masked += visit.masked;
  }
  return tiles;
}
std::string tiles_as_text(const TileCounts& tiles) {
  return "  tiles      " + std::to_string(tiles.visited) + " visited, " +
         std::to_string(tiles.masked) + " of them masked; " + std::to_string(tiles.skipped) +
         " skipped\n";
}

// Chapter 08's kernel knows none of this.
bool previous_takes(const Problem& problem, const Request& request) {
  return !problem.causal && problem.group == 1 && problem.window_left < 0 &&
         problem.window_right < 0 && problem.q_starts.empty() && problem.softcap == 0 &&
         !problem.alibi && request.layout == "bhld" && problem.dtype == Dtype::bf16 &&
         (problem.shape.dim == 64 || problem.shape.dim == 128);
}

// What `run` returns; if the GPU's memory is too small for it, the sentence says what helps.
double or_too_large(const KernelChapter& chapter, const std::function<double()>& run) {
  try {
    return run();
  } catch (const TooLittle& error) {
    throw InputError(
        error.what() + std::string("; a smaller --shape") +
        (chapter.options.empty() ? "" : std::string(" or fewer ") + chapter.options[0].name) +
        " may fit, --device emulator has the host's memory");
  }
}

// "3 consumers, with ping-pong"
std::string title_of(std::span<const KernelOption> options, const std::vector<int>& values) {
  std::string text;
  for (size_t i = 0; i < options.size(); ++i) {
    std::string title = options[i].title;
    if (title.empty()) continue;
    if (options[i].least == 0 && values[i] == 0) continue;  // off, or by the shape
    if (options[i].least != 0 || options[i].most != 1) {
      if (values[i] == 1) title.pop_back();
      title = std::to_string(values[i]) + " " + title;
    }
    text += (text.empty() ? "" : ", ") + title;
  }
  return text;
}

Outcome forward(const KernelChapter& chapter, const KernelRun& options, const Problem& problem,
                const Request& request, std::span<float> o, std::span<float> lse) {
  KernelWork work;
  work.on_gpu = [&] { return forward_on_gpu(chapter, problem, o, lse, options); };
  work.on_emulator = [&](const simt::Config& config) {
    return forward_on_emulator(chapter, problem, o, lse, options, config);
  };
  if (chapter.previous && previous_takes(problem, request)) {
    work.previous = [&] {
      KernelChapter before = chapter;
      before.emulator = chapter.previous;
      std::vector<float> scratch(o.size());
      simt::Config config;
      config.hazards = false;
      return forward_on_emulator(before, problem, scratch, {}, {}, config).report.counters;
    };
  }
  Outcome outcome = run_kernels(chapter, request, work);
  outcome.title = title_of(chapter.options, options.options);
  return outcome;
}

void bench(const KernelChapter& chapter, const KernelRun& options, const Shape& default_shape,
           const Problem& problem, const Request& request) {
  if (!wants_gpu(chapter, request)) {
    std::cout << "  bench      the emulator's time says nothing about a GPU's; "
                 "./learn bench simt measures the emulator itself\n";
    return;
  }
  // The default shape is made for reading counters: too small to fill a GPU.
  const bool small = problem.shape == default_shape;
  const Shape shape = small ? Shape{1, 8, 4096, 8192, 128} : problem.shape;
  Problem large = problem;
  if (small) {
    large = random_problem(shape, problem.dtype, 0);
    large.causal = problem.causal;
  }
  std::vector<float> o(shape.q_elements());
  const double ms =
      or_too_large(chapter, [&] { return forward_on_gpu(chapter, large, o, {}, options, 20); });
  const double tflops = forward_operation().flops(large) / ms * 1e-9,
               limit = gpu_mma_limit_tflops();
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

bool wants_gpu(const KernelChapter& chapter, const Request& request) {
  const bool emulator_only = (request.breaks & chapter.undefined_on_a_gpu) != 0 ||
                             request.schedule_seed != 0 || !request.events.empty();
  if (request.i_know &&
      (request.device != "gpu" || (request.breaks & chapter.undefined_on_a_gpu) == 0)) {
    throw InputError("--i-know: goes with --device gpu and a --break that is undefined there");
  }
  if (request.device == "auto") return !emulator_only && gpu_problem(*chapter.gpu).empty();
  if (request.device != "gpu") return false;
  for (const Break& b : breaks_of(chapter)) {
    if (!request.i_know && (request.breaks & b.bit & chapter.undefined_on_a_gpu)) {
      throw InputError(std::string("--break ") + b.name +
                       " is undefined behaviour on a GPU, which may hang or pass by luck: --device "
                       "emulator shows the hazard, --i-know runs it all the same");
    }
  }
  if (const std::string problem = gpu_problem(*chapter.gpu); !problem.empty()) {
    throw InputError("--device gpu: " + problem + "; --device emulator runs here");
  }
  if (!request.events.empty() || request.schedule_seed != 0) {
    throw InputError("--events and --schedule-seed: only --device emulator has them");
  }
  return true;
}

Outcome run_kernels(const KernelChapter& chapter, const Request& request, const KernelWork& work) {
  Outcome outcome;
  const bool gpu = wants_gpu(chapter, request);
  if (!gpu || request.profile) {
    simt::Config config;
    config.schedule_seed = static_cast<uint64_t>(request.schedule_seed);
    config.events = !request.events.empty();
    config.hazards = !gpu;
    if (request.breaks != 0 && request.schedule_seed != 0) config.threads = 1;  // repeatable
    EmulatorRun run;
    outcome.device = "emulator";
    outcome.time_ms = time_ms([&] { run = work.on_emulator(config); });
    outcome.hazardous = !run.report.hazards.empty();
    if ((request.breaks & chapter.undefined_on_a_gpu) != 0 && request.device == "auto" &&
        gpu_problem(*chapter.gpu).empty()) {
      outcome.notes = "  device     emulator: this break is undefined behaviour on a GPU\n";
    }
    outcome.notes += hazards_as_text(run.report.hazards);
    outcome.hazards = shared_json(hazards_as_json(run.report.hazards));
    if (!request.events.empty()) write_file(request.events, event_log(run));
    for (const simt::CounterField& field : simt::kCounterFields) {
      outcome.counters[field.name] = run.report.counters.*field.value;
    }
    const TileCounts tiles = count_tiles(run.report.tiles);
    outcome.counters["tma_bytes_outside"] = run.report.counters.tma_bytes_outside;
    outcome.counters["tiles_masked"] = tiles.masked;
    if (request.profile) {
      outcome.profile = shared_json(counters_as_json(run.report.counters, chapter.unconfirmed));
      if (!run.report.tiles.empty()) {
        (*outcome.profile)["tiles_visited"] = tiles.visited;
        (*outcome.profile)["tiles_masked"] = tiles.masked;
        (*outcome.profile)["tiles_skipped"] = tiles.skipped;
        outcome.notes += tiles_as_text(tiles);
      }
      simt::Counters previous;
      if (work.previous) {
        previous = work.previous();
        (*outcome.profile)["previous"] = counters_as_json(previous, {});
      }
      outcome.notes +=
          counters_as_text(chapter, run.report.counters, work.previous ? &previous : nullptr);
    }
  }
  if (gpu) {  // last: it fills the outputs again
    outcome.device = gpu_name();
    outcome.time_ms = or_too_large(chapter, work.on_gpu);
  }
  return outcome;
}

int run_kernel_program(const KernelChapter& chapter, int argc, char** argv,
                       const BreakDemos& demos) {
  std::vector<int64_t> values;  // of the chapter's own options
  for (const KernelOption& option : chapter.options) values.push_back(option.otherwise);
  AttentionProgram program;
  Operation rounding = forward_operation();
  if (chapter.computed) {
    rounding.check = [&](const Problem& problem, std::span<const std::vector<float>> outputs,
                         uint64_t seed) {
      const std::vector<int> options(values.begin(), values.end());
      return check_rounding(problem, chapter.computed(problem, options), outputs, seed);
    };
    program.operation = &rounding;
  }
  program.name = chapter.name;
  program.about = chapter.about;
  program.default_shape = {1, 1, 128, 512, 128};
  program.breaks = breaks_of(chapter);
  program.demos = demos;
  program.dtypes = {Dtype::bf16};
  if (chapter.features & FP16) program.dtypes.push_back(Dtype::f16);
  program.features = chapter.features;
  program.has_device = true;
  program.add_options = [&](Cli& cli) {
    for (size_t i = 0; i < values.size(); ++i) {
      const KernelOption& option = chapter.options[i];
      cli.integer(option.name, values[i], option.least, option.most, option.about);
    }
  };
  const auto options = [&](const Request& request) {
    return KernelRun{request.breaks, {values.begin(), values.end()}, request.layout == "blhd"};
  };
  if (chapter.prepare) {
    program.prepare = [&](Problem& problem) {
      const std::vector<int> given(values.begin(), values.end());
      chapter.prepare(problem, given);
    };
  }
  program.validate = [&](const Problem& problem) { chapter.check_shape(problem.shape); };
  program.run = [&](const Problem& problem, const Request& request,
                    std::span<std::vector<float>> outputs) {
    return forward(chapter, options(request), problem, request, outputs[0], outputs[1]);
  };
  program.bench = [&](const Problem& problem, const Request& request) {
    bench(chapter, options(request), program.default_shape, problem, request);
  };
  return run_attention_program(program, argc, argv);
}

}  // namespace fa
