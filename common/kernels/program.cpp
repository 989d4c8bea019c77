#include "common/kernels/program.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/gpu/runtime.hpp"
#include "common/text.hpp"
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

// A descriptor has 64 bits, more than a number of JavaScript keeps, so it is written in
// hexadecimal.
nlohmann::json operand_as_json(const simt::EventOperand& operand) {
  return {{"descriptor", text("0x%016llx", static_cast<unsigned long long>(operand.descriptor))},
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

nlohmann::json counters_as_json(const simt::Counters& counters) {
  nlohmann::json json, estimates = nlohmann::json::array();
  for (const simt::CounterField& field : simt::kCounterFields) {
    if (field.cuda_files) continue;
    json[field.name] = counters.*field.value;
    if (simt::is_estimate(counters, field.name)) estimates.push_back(field.name);
  }
  json["estimates"] = estimates;
  return json;
}

// One line per counter, for the previous chapter and for this one.
std::string counters_as_text(const Kernel& kernel, const simt::Counters& counters,
                             const char* previous_name, const simt::Counters* previous) {
  std::string lines;
  const auto add = [&](const std::string& name, const std::string& before, const std::string& now,
                       const char* remark) {
    lines += text("  %-30s %12s %12s%s\n", name.c_str(), previous ? before.c_str() : "",
                  now.c_str(), remark);
  };
  add("counted on the emulator", std::string(previous_name).substr(0, 4), kernel.short_name(), "");
  for (const simt::CounterField& field : simt::kCounterFields) {
    if (field.rare && counters.*field.value == 0) continue;
    add(field.name, previous ? std::to_string(previous->*field.value) : "",
        std::to_string(counters.*field.value),
        simt::is_estimate(counters, field.name) ? "  estimate" : "");
  }
  const auto ratio = [](const simt::Counters& c) {
    if (c.shared_load_wavefronts_ideal == 0) return std::string();
    return text("%.2f", static_cast<double>(c.shared_load_wavefronts) /
                            static_cast<double>(c.shared_load_wavefronts_ideal));
  };
  if (counters.shared_load_wavefronts_ideal != 0)
    add("load wavefronts for each ideal", previous ? ratio(*previous) : "", ratio(counters), "");
  return lines;
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

// True if the problem is plain, so that kernels before chapter 09 take it.
bool is_plain(const Problem& problem, const Arguments& args) {
  return !problem.causal && problem.group == 1 && problem.window_left < 0 &&
         problem.window_right < 0 && problem.q_starts.empty() && problem.softcap == 0 &&
         !problem.alibi && problem.sinks.empty() && args.layout == "bhld" &&
         problem.dtype == Dtype::bf16 && (problem.shape.dim == 64 || problem.shape.dim == 128);
}

// Returns what `run` returns. If the GPU's memory is too small, the sentence says what helps.
double or_too_large(const Kernel& kernel, const std::function<double()>& run) {
  try {
    return run();
  } catch (const OutOfMemory& error) {
    throw InputError(
        error.what() + std::string("; a smaller --shape") +
        (kernel.options.empty() ? "" : std::string(" or fewer ") + kernel.options[0].name) +
        " may fit, --device emulator has the host's memory");
  }
}

// "3 consumers, with ping-pong"
std::string title_of(std::span<const IntegerOption> options, const std::vector<int>& values) {
  std::string text;
  for (size_t i = 0; i < options.size(); ++i) {
    std::string title = options[i].title;
    if (title.empty()) continue;
    if (options[i].min == 0 && values[i] == 0) continue;  // off, or by the shape
    if (options[i].min != 0 || options[i].max != 1) {
      if (values[i] == 1) title.pop_back();
      title = std::to_string(values[i]) + " " + title;
    }
    text += (text.empty() ? "" : ", ") + title;
  }
  return text;
}

KernelRun kernel_run(const Arguments& args, const std::vector<int>& options) {
  return {args.break_bits, options, args.layout == "blhd"};
}

// The default shape is made for reading counters, so it is too small to fill a GPU. Returns a
// larger problem in its place.
Problem large_problem(const Problem& problem, const Arguments& args, const Shape& shape) {
  if (problem.shape != args.program.default_shape) return problem;
  Problem large = random_problem(shape, problem.dtype, 0);
  large.causal = problem.causal;
  return large;
}

void bench_forward(const Kernel& kernel, const Problem& problem, const Arguments& args) {
  if (!wants_gpu(kernel, args)) {
    std::cout << "  bench      the emulator's time says nothing about a GPU's; "
                 "./learn bench simt measures the emulator itself\n";
    return;
  }
  const Problem large = large_problem(problem, args, {1, 8, 4096, 8192, 128});
  const Shape& shape = large.shape;
  std::vector<float> o(shape.q_elements());
  const double ms = or_too_large(kernel, [&] {
    return forward_on_gpu(kernel, large, o, {}, kernel_run(args, args.options), 20);
  });
  const double tflops = forward_flops(large) / ms * 1e-9, limit = gpu_mma_limit_tflops();
  const double once = 2.0 * (shape.q_elements() + shape.kv_elements()) * sizeof(bf16);
  const double rate = once / ms * 1e-6, copy = gpu_copy_limit_gbs();
  std::cout << text(
      "  bench      shape %s: %.3f ms, %.1f TFLOP/s, %.1f %% of the %.1f that mma.sync "
      "alone reaches here\n"
      "             Q, K, V and O once: %.1f GB/s, %.1f %% of the %.0f that a copy "
      "reaches here\n",
      to_string(shape).c_str(), ms, tflops, 100 * tflops / limit, limit, rate, 100 * rate / copy,
      copy);
}

// The tensors of a backward pass, with O and LSE from the forward pass before it.
struct Backward {
  const Kernel &kernel, &forward;
  const Problem& problem;
  std::span<float> dq, dk, dv, d_sinks;
  KernelRun run;
  std::vector<float> o = std::vector<float>(problem.shape.q_elements());
  std::vector<float> lse = std::vector<float>(problem.shape.rows());
  std::vector<float> workspace = {};

  double on_gpu(int runs) {
    forward_on_gpu(forward, problem, o, lse);
    return backward_on_gpu(kernel, problem, {o, lse, dq, dk, dv, d_sinks}, run, runs);
  }
  EmulatorRun on_emulator(const simt::Config& config) {
    simt::Config uncounted;
    uncounted.hazards = false;
    forward_on_emulator(forward, problem, o, lse, {}, uncounted);
    return backward_on_emulator(kernel, problem, {o, lse, dq, dk, dv, d_sinks, &workspace}, run,
                                config);
  }
};

void bench_backward(const Kernel& kernel, const Kernel& forward, const Problem& problem,
                    const Arguments& args, const std::vector<int>& options) {
  if (!wants_gpu(kernel, args)) {
    std::cout << "  bench      one run is timed above; the kernels on a GPU have more to measure\n";
    return;
  }
  Problem large = large_problem(problem, args, {2, 16, 8192, 8192, 128});
  if (large.d_o.empty()) large.d_o = random_values(like_q(large), large.dtype, 0, 0);
  std::vector<float> dq(large.q.size()), dk(large.k.size()), dv(large.v.size());
  std::vector<float> d_sinks(large.sinks.size());
  const double ms =
      Backward{kernel, forward, large, dq, dk, dv, d_sinks, kernel_run(args, options)}.on_gpu(20);
  const double tflops = 2.5 * forward_flops(large) / ms * 1e-9, limit = gpu_mma_limit_tflops();
  std::cout << text(
      "  bench      shape %s: %.3f ms, %.1f TFLOP/s, %.1f %% of the %.1f that mma.sync "
      "alone reaches here\n",
      to_string(large.shape).c_str(), ms, tflops, 100 * tflops / limit, limit);
}

}  // namespace

Program program_of(const Kernel& kernel, const char* about, const Shape& default_shape) {
  Program program{.name = kernel.name,
                  .about = about,
                  .default_shape = default_shape,
                  .breaks = breaks_of(kernel),
                  .dtypes = {Dtype::bf16},
                  .features = kernel.features,
                  .has_device = true,
                  .options = kernel.options,
                  .check_shape = kernel.check_shape};
  if (kernel.features & FP16) program.dtypes.push_back(Dtype::f16);
  return program;
}

bool wants_gpu(const Kernel& kernel, const Arguments& args) {
  const uint32_t undefined = args.break_bits & kernel.undefined_on_a_gpu;
  const bool emulator_only = undefined != 0 || args.schedule_seed != 0 || !args.events.empty();
  if (args.allow_undefined && (args.device != "gpu" || undefined == 0)) {
    throw InputError(
        "--allow-undefined: goes with --device gpu and a --break that is undefined there");
  }
  if (args.device == "auto") return !emulator_only && gpu_problem(*kernel.gpu).empty();
  if (args.device != "gpu") return false;
  for (const Break& b : breaks_of(kernel)) {
    if (!args.allow_undefined && (undefined & b.bit)) {
      throw InputError(std::string("--break ") + b.name +
                       " is undefined behaviour on a GPU, which may hang or pass by luck: --device "
                       "emulator shows the hazard, --allow-undefined runs it all the same");
    }
  }
  if (const std::string problem = gpu_problem(*kernel.gpu); !problem.empty()) {
    throw InputError("--device gpu: " + problem + "; --device emulator runs here");
  }
  if (!args.events.empty() || args.schedule_seed != 0) {
    throw InputError("--events and --schedule-seed: only --device emulator has them");
  }
  return true;
}

Run run_kernels(const Kernel& kernel, const Arguments& args, const KernelWork& work) {
  Run result;
  const bool gpu = wants_gpu(kernel, args);
  if (!gpu || args.profile) {
    simt::Config config{.schedule_seed = static_cast<uint64_t>(args.schedule_seed),
                        .hazards = !gpu,
                        .events = !args.events.empty()};
    if (args.break_bits != 0 && args.schedule_seed != 0) config.threads = 1;  // repeatable
    EmulatorRun run;
    result.device = "emulator";
    result.time_ms = time_ms([&] { run = work.on_emulator(config); });
    const simt::Counters& counters = run.report.counters;
    result.hazardous = !run.report.hazards.empty();
    if ((args.break_bits & kernel.undefined_on_a_gpu) != 0 && args.device == "auto" &&
        gpu_problem(*kernel.gpu).empty()) {
      result.notes = "  device     emulator: this break is undefined behaviour on a GPU\n";
    }
    result.notes += hazards_as_text(run.report.hazards);
    result.hazards = shared_json(hazards_as_json(run.report.hazards));
    if (!args.events.empty()) write_file(args.events, event_log(run));
    for (const simt::CounterField& field : simt::kCounterFields) {
      if (!field.cuda_files) result.counters[field.name] = counters.*field.value;
    }
    const TileCounts tiles = count_tiles(run.report.tiles);
    result.counters["tma_bytes_outside"] = counters.tma_bytes_outside;
    result.counters["tiles_masked"] = tiles.masked;
    if (args.profile) {
      result.profile = shared_json(counters_as_json(counters));
      if (!run.report.tiles.empty()) {
        (*result.profile)["tiles_visited"] = tiles.visited;
        (*result.profile)["tiles_masked"] = tiles.masked;
        (*result.profile)["tiles_skipped"] = tiles.skipped;
        result.notes += tiles_as_text(tiles);
      }
      simt::Counters previous;
      if (work.previous) {
        previous = work.previous();
        (*result.profile)["previous"] = counters_as_json(previous);
      }
      result.notes += counters_as_text(kernel, counters, work.previous_name,
                                       work.previous ? &previous : nullptr);
    }
  }
  if (gpu) {  // last: it fills the outputs again
    result.device = gpu_name();
    result.time_ms = or_too_large(kernel, [&] { return work.on_gpu(1); });
  }
  return result;
}

Run run_forward(const Kernel& kernel, Tensors& tensors, const Arguments& args,
                const Kernel* previous) {
  const KernelRun run = kernel_run(args, args.options);
  KernelWork work;
  work.on_gpu = [&](int runs) {
    return forward_on_gpu(kernel, tensors, tensors.o, tensors.lse, run, runs);
  };
  work.on_emulator = [&](const simt::Config& config) {
    return forward_on_emulator(kernel, tensors, tensors.o, tensors.lse, run, config);
  };
  if (previous) work.previous_name = previous->name;
  if (previous && is_plain(tensors, args)) {
    work.previous = [&] { return counted(*previous, tensors); };
  }
  Run result = run_kernels(kernel, args, work);
  result.title = title_of(kernel.options, args.options);
  result.bench = [&] { bench_forward(kernel, tensors, args); };
  return result;
}

Run run_backward(const Kernel& kernel, const Kernel& forward, Tensors& tensors,
                 const Arguments& args, const std::vector<int>& options) {
  Backward backward{kernel,     forward,    tensors,         tensors.dq,
                    tensors.dk, tensors.dv, tensors.d_sinks, kernel_run(args, options)};
  Run result = run_kernels(
      kernel, args,
      {.on_gpu = [&](int runs) { return backward.on_gpu(runs); },
       .on_emulator = [&](const simt::Config& config) { return backward.on_emulator(config); }});
  result.unrounded = std::move(backward.workspace);
  if (!tensors.sinks.empty()) {  // the check of their gradients needs them
    tensors.o = std::move(backward.o);
    tensors.lse = std::move(backward.lse);
  }
  result.bench = [&, options] { bench_backward(kernel, forward, tensors, args, options); };
  return result;
}

simt::Counters counted(const Kernel& kernel, const Problem& problem) {
  std::vector<float> scratch(problem.shape.q_elements());
  simt::Config config{.hazards = false};
  return forward_on_emulator(kernel, problem, scratch, {}, {}, config).report.counters;
}

}  // namespace fa
