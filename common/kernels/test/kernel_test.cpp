#include "common/kernels/test/kernel_test.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "common/check.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/npy.hpp"

namespace fa::test {
namespace {

std::vector<float> emulate(const Kernel& kernel, const Problem& problem, uint32_t breaks = 0,
                           std::vector<simt::Hazard>* hazards = nullptr, uint64_t seed = 0) {
  std::vector<float> o(problem.shape.q_elements());
  const EmulatorRun run =
      forward_on_emulator(kernel, problem, o, {}, {.breaks = breaks}, {.schedule_seed = seed});
  if (hazards) {
    *hazards = run.report.hazards;
  } else {
    CHECK_MESSAGE(run.report.hazards.empty(),
                  (run.report.hazards.empty() ? "" : run.report.hazards[0].text));
  }
  return o;
}

CheckResult check(const Kernel& kernel, const Problem& problem, const std::vector<float>& o,
                  const std::vector<float>& lse = {}) {
  if (kernel.computed) return check_output(kernel.computed(problem, {}), o, lse);
  return check_output(problem, o, lse);
}

void check_against_reference(const Kernel& kernel, const Problem& problem,
                             const std::vector<float>& o) {
  const CheckResult result = check(kernel, problem, o);
  CHECK_MESSAGE(result.passed(), describe(result, problem.shape));
}

void agrees(const Kernel& kernel, const Problem& problem) {
  INFO("shape ", to_string(problem.shape));
  check_against_reference(kernel, problem, emulate(kernel, problem));
  if (gpu_problem(*kernel.gpu).empty()) {
    std::vector<float> o(problem.shape.q_elements());
    forward_on_gpu(kernel, problem, o);
    check_against_reference(kernel, problem, o);
  }
}

const double INPUT_SCALES[] = {1.0, 30.0, 1e-3};

// True if the break has an error above rounding at this input scale.
bool shows(KernelBreak flag, double input_scale) {
  // A score of 0 has weight among scores near 0 or below, but almost none among scores of 30 and
  // more.
  if (flag == UNMASKED_TAIL) return input_scale < 30;
  if (flag >= OWN_BREAK) return true;  // these breaks concern V
  return std::abs(input_scale) >= 1;   // at 1e-3 all scores and all maxima are nearly equal
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

void agrees_on_named_shapes(const Kernel& kernel) {
  const Shape shapes[] = {{1, 1, 1, 1, 64},      {1, 1, 64, 64, 64},  {2, 3, 65, 127, 64},
                          {1, 2, 257, 513, 128}, {1, 1, 100, 1, 128}, {1, 1, 1, 1000, 128}};
  for (const Shape& shape : shapes) {
    for (const double input_scale : INPUT_SCALES) {
      INFO("input scale ", input_scale);
      agrees(kernel, random_problem(shape, Dtype::bf16, 1, input_scale));
    }
  }
}

void agrees_on_a_large_shape(const Kernel& kernel) {
  for (const double input_scale : {1.0, 30.0, 1e-3}) {
    INFO("input scale ", input_scale);
    agrees(kernel, random_problem({1, 8, 1024, 1024, 128}, Dtype::bf16, 1, input_scale));
  }
}

void agrees_on_random_shapes(const Kernel& kernel) {
  std::mt19937_64 random(20);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 30; ++i) {
    const Shape shape{pick(1, 2), pick(1, 2), pick(1, 140), pick(1, 200), pick(1, 2) * 64};
    agrees(kernel, random_problem(shape, Dtype::bf16, i));
  }
}

void agrees_with_golden_cases(const Kernel& kernel) {
  const std::string golden = FA_BINARY_DIR "/golden/";
  int cases = 0;
  for (const auto& name : nlohmann::json::parse(read_file(golden + "cases.json"))) {
    const std::string directory = golden + name.get<std::string>() + "/";
    const auto description = nlohmann::json::parse(read_file(directory + "case.json"));
    if (description["dtype"] != "bf16" || description["causal"]) continue;
    INFO("golden case ", name.get<std::string>());
    bool two_dimensional;
    Problem problem = load_problem(directory + "q.npy", directory + "k.npy", directory + "v.npy",
                                   Dtype::bf16, 1.0, &two_dimensional);
    problem.scale = description["scale"];
    const std::vector<float> o = emulate(kernel, problem);
    const NpyArray expected = read_npy(directory + "o.npy");
    const CheckResult bound = check(kernel, problem, o);
    const std::vector<double> values = expected.doubles();
    const View<const double> answer{values.data(), problem.shape.rows(), problem.shape.dim};
    const Comparison comparison =
        compare({o.data(), problem.shape.rows(), problem.shape.dim}, answer, bound.o.bound);
    CHECK(comparison.passed());
    ++cases;
  }
  CHECK(cases >= 4);
}

void returns_a_constant_v(const Kernel& kernel, double tolerance) {
  for (const float constant : {1.0f, -0.75f, 1.5f, 96.0f}) {
    for (const double input_scale : INPUT_SCALES) {
      for (const Shape& shape : {Shape{1, 1, 1, 1, 64}, Shape{2, 3, 65, 127, 64},
                                 Shape{1, 1, 100, 1, 128}, Shape{1, 1, 70, 300, 128}}) {
        Problem problem = random_problem(shape, Dtype::bf16, 2, input_scale);
        std::fill(problem.v.begin(), problem.v.end(), constant);
        const std::vector<float> o = emulate(kernel, problem);
        INFO("constant ", constant, ", input scale ", input_scale, ", shape ", to_string(shape));
        const auto is_constant = [&](float value) {
          return std::abs(value - constant) <= tolerance * std::abs(constant);  // false for NaN
        };
        CHECK(std::all_of(o.begin(), o.end(), is_constant));
        if (gpu_problem(*kernel.gpu).empty()) {
          std::vector<float> from_gpu(o.size());
          forward_on_gpu(kernel, problem, from_gpu);
          CHECK(std::all_of(from_gpu.begin(), from_gpu.end(), is_constant));
        }
      }
    }
  }
}

void same_bits_under_every_schedule(const Kernel& kernel) {
  const Problem problem = random_problem({1, 1, 70, 150, 64}, Dtype::bf16, 3);
  const std::vector<float> first = emulate(kernel, problem);
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("schedule seed ", seed);
    CHECK(emulate(kernel, problem, 0, nullptr, seed) == first);  // compares bits
  }
}

void refuses_scales_that_are_not_positive(const Kernel& kernel) {
  Problem problem = random_problem({1, 1, 16, 16, 64}, Dtype::bf16, 1);
  std::vector<float> o(problem.shape.q_elements());
  for (const double scale : {0.0, -0.125}) {
    problem.scale = scale;
    CHECK_THROWS_AS(forward_on_emulator(kernel, problem, o), InputError);
  }
}

void every_synchronization_is_needed(const Kernel& kernel, size_t count,
                                     const std::string& for_speed, const Shape& shape) {
  // By default ragged lengths, with more tiles than any chapter has in flight.
  const Problem problem = random_problem(shape, Dtype::bf16, 7);
  std::vector<float> o(problem.shape.q_elements());
  simt::Config config;
  const auto run = [&] { return forward_on_emulator(kernel, problem, o, {}, {}, config).report; };
  const simt::Report intact = run();
  CHECK_MESSAGE(intact.hazards.empty(), (intact.hazards.empty() ? "" : intact.hazards[0].text));
  REQUIRE(intact.synchronizations.size() == count);
  for (const simt::Synchronization& sync : intact.synchronizations) {
    if (sync.instruction == "setmaxnreg_inc") continue;  // no register limit in this environment
    const std::string site = std::string(sync.where.file) + ":" + std::to_string(sync.where.line);
    config.leave_out = {{site}};
    INFO(sync.instruction, " at ", site, " left out");
    CHECK(run().hazards.empty() == (sync.instruction == for_speed));
    if (sync.instruction == for_speed) check_against_reference(kernel, problem, o);
  }
}

simt::Counters count(const Kernel& kernel) {
  const Problem problem = random_problem({1, 1, 128, 512, 128}, Dtype::bf16, 4);
  std::vector<float> o(problem.shape.q_elements());
  return forward_on_emulator(kernel, problem, o).report.counters;
}

void counts_what_nsight_counted(const Kernel& kernel, const CopyCounters& expected) {
  const simt::Counters counters = count(kernel);
  CHECK(counters.ldmatrix_instructions == expected.ldmatrix);
  CHECK(counters.mma_instructions == 8192);
  CHECK(counters.cp_async_instructions == 1088);
  CHECK(counters.shuffle_instructions == expected.shuffles);
  CHECK(counters.barriers == expected.barriers);
  CHECK(counters.shared_load_wavefronts == expected.load_wavefronts);
  CHECK(counters.shared_load_wavefronts_ideal == 16640);
  CHECK(counters.shared_store_wavefronts == 4352);
  CHECK(counters.global_load_sectors == 17408);
  CHECK(counters.global_load_sectors_ideal == 17408);
  CHECK(counters.global_store_sectors == 2048);
  CHECK(counters.global_store_sectors_ideal == 1024);
  CHECK(counters.shared_bytes_per_block == expected.shared_bytes);
}

void with_options(const Kernel& kernel, const std::vector<int>& values,
                  void (*check)(const Kernel&)) {
  std::vector<IntegerOption> options(kernel.options.begin(), kernel.options.end());
  REQUIRE(values.size() == options.size());
  Kernel changed = kernel;
  for (size_t i = 0; i < values.size(); ++i) options[i].fallback = values[i];
  changed.options = options;
  CAPTURE(values);
  check(changed);
}

void no_max_overflows(const Kernel& kernel) {
  // Scores are around 4, so exp does not overflow fp32 and the maximum is not needed.
  is_harmless(kernel, NO_MAX, {1, 1, 40, 100, 64});
  // 30 times as large, scores pass 88.7, where exp overflows fp32.
  const Problem problem = random_problem({1, 1, 40, 100, 64}, Dtype::bf16, 5, 30.0);
  std::vector<simt::Hazard> hazards;
  const std::vector<float> o = emulate(kernel, problem, NO_MAX, &hazards);
  CHECK(hazards.empty());
  CHECK(std::any_of(o.begin(), o.end(), [](float x) { return std::isnan(x); }));
}

void is_finite_and_wrong(const Kernel& kernel, KernelBreak flag, const Shape& shape) {
  for (const double input_scale : {1.0, 30.0, -30.0, 1e-3}) {
    INFO("input scale ", input_scale);
    const Problem problem = random_problem(shape, Dtype::bf16, 5, input_scale);
    std::vector<simt::Hazard> hazards;
    const std::vector<float> o = emulate(kernel, problem, flag, &hazards);
    CHECK(hazards.empty());
    CHECK(all_finite(o));
    const CheckResult result = check(kernel, problem, o);
    CHECK(result.passed() == !shows(flag, input_scale));
    CHECK(!result.inconclusive);
    if (shows(flag, input_scale)) {  // the error is more than rounding
      CHECK(result.o.mismatches * 10 > result.o.elements);
    }
  }
}

void is_harmless(const Kernel& kernel, KernelBreak flag, const Shape& shape) {
  const Problem problem = random_problem(shape, Dtype::bf16, 5);
  check_against_reference(kernel, problem, emulate(kernel, problem, flag));
}

void breaks_of_the_softmax(const Kernel& kernel, int64_t whole_tiles) {
  no_max_overflows(kernel);
  is_finite_and_wrong(kernel, NO_RESCALE, {1, 1, 64, 256, 64});
  is_harmless(kernel, NO_RESCALE, {1, 1, 64, 20, 64});  // one tile, so nothing to rescale
  is_finite_and_wrong(kernel, UNMASKED_TAIL, {1, 1, 64, 70, 64});
  is_harmless(kernel, UNMASKED_TAIL, {1, 1, 64, whole_tiles, 64});
  is_finite_and_wrong(kernel, SHUFFLE_MASK_0X10, {1, 1, 64, 128, 64});
}

void is_reported_as(const Kernel& kernel, KernelBreak flag, simt::HazardKind kind,
                    double input_scale) {
  const Problem problem = random_problem({1, 1, 70, 450, 64}, Dtype::bf16, 5, input_scale);
  for (const uint64_t seed : {0, 1, 2, 3}) {
    std::vector<simt::Hazard> hazards;
    emulate(kernel, problem, flag, &hazards, seed);
    INFO("schedule seed ", seed, ", expected ", std::string(simt::hazard_name(kind)));
    CHECK(std::any_of(hazards.begin(), hazards.end(),
                      [&](const simt::Hazard& hazard) { return hazard.kind == kind; }));
  }
}

Answer answer(const Kernel& kernel, const Problem& problem, const KernelRun& run) {
  Answer result{
      std::vector<float>(problem.shape.q_elements()), std::vector<float>(problem.shape.rows()), {}};
  result.report = forward_on_emulator(kernel, problem, result.o, result.lse, run).report;
  return result;
}

void check_agrees(const Kernel& kernel, const Problem& problem, bool by_length) {
  INFO("shape ", to_string(problem.shape), ", kv heads ", problem.kv_heads(), ", window ",
       problem.window_left, ",", problem.right(), ", softcap ", problem.softcap);
  const Answer got = answer(kernel, problem, {.by_length = by_length});
  CHECK(got.report.hazards.empty());
  const CheckResult result = check(kernel, problem, got.o, got.lse);
  CHECK_MESSAGE(result.passed(), describe(result, problem.shape));
  if (!gpu_problem(*kernel.gpu).empty()) return;
  std::vector<float> o(got.o.size()), lse(got.lse.size());
  forward_on_gpu(kernel, problem, o, lse, {.by_length = by_length});
  const CheckResult on_gpu = check(kernel, problem, o, lse);
  CHECK_MESSAGE(on_gpu.passed(), describe(on_gpu, problem.shape));
}

Problem causal(const Shape& shape, uint64_t seed) {
  Problem problem = random_problem(shape, Dtype::bf16, seed);
  problem.causal = true;
  return problem;
}

Problem window(const Shape& shape, int64_t left, int64_t right) {
  Problem problem = random_problem(shape, Dtype::bf16, 2);
  problem.window_left = left;
  problem.window_right = right;
  return problem;
}

Problem packed(const std::vector<int64_t>& len_q, const std::vector<int64_t>& len_kv, int64_t dim) {
  const auto starts = [](const std::vector<int64_t>& lengths) {
    std::vector<int64_t> all(lengths.size() + 1);
    std::partial_sum(lengths.begin(), lengths.end(), all.begin() + 1);
    return all;
  };
  const std::vector<int64_t> q = starts(len_q), kv = starts(len_kv);
  Problem problem = random_problem({1, 2, q.back(), kv.back(), dim}, Dtype::bf16, 3);
  problem.q_starts = q;
  problem.kv_starts = kv;
  return problem;
}

void agrees_under_causal_masks(const Kernel& kernel) {
  for (const Shape& shape :
       {Shape{1, 1, 1, 300, 64}, Shape{1, 2, 200, 70, 64}, Shape{1, 1, 300, 1, 128},
        Shape{2, 1, 257, 513, 64}, Shape{1, 1, 130, 131, 128}, Shape{1, 1, 1, 1, 64}}) {
    check_agrees(kernel, causal(shape));
  }
}

void agrees_in_windows(const Kernel& kernel) {
  const Shape shape{1, 1, 300, 260, 128};
  for (const auto& [left, right] :
       {std::pair{10, 5}, {0, 0}, {-1, 3}, {100, -1}, {64, 64}, {1000, 1000}, {127, 0}}) {
    check_agrees(kernel, window(shape, left, right));
    check_agrees(kernel, window({1, 1, 70, 600, 64}, left, right));
  }
  Problem both = window(shape, 20, 40);
  both.causal = true;  // the right side of the window is then 0
  check_agrees(kernel, both);
}

void agrees_with_shared_heads(const Kernel& kernel) {
  for (const int64_t group : {1, 2, 6}) {
    Problem problem = random_problem({2, 6, 70, 90, 64}, Dtype::bf16, 4, 1, group);
    problem.causal = true;
    check_agrees(kernel, problem);
    check_agrees(kernel, problem, true);
    CHECK(answer(kernel, problem).o ==
          answer(kernel, problem, {.by_length = true}).o);  // the same bits
  }
}

void agrees_on_packed_sequences(const Kernel& kernel) {
  Problem problem = packed({1, 0, 130, 40, 5}, {7, 30, 70, 0, 140}, 64);
  check_agrees(kernel, problem);
  problem.causal = true;
  check_agrees(kernel, problem);
  problem.window_left = 20;
  check_agrees(kernel, problem);
  check_agrees(kernel, packed({100}, {90}, 128));
}

void no_row_reads_its_neighbour(const Kernel& kernel) {
  const Problem clean = packed({70, 60, 50}, {90, 33, 130}, 64);
  const Answer expected = answer(kernel, clean);
  const auto poisoned = [&](size_t sequence) {
    Problem problem = clean;
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t key = clean.kv_starts[sequence]; key < clean.kv_starts[sequence + 1]; ++key) {
        for (int64_t d = 0; d < 64; ++d) {
          const int64_t at = (head * clean.shape.kv + key) * 64 + d;
          problem.k[at] = problem.v[at] = std::nanf("");
        }
      }
    }
    return problem;
  };
  for (size_t sequence = 0; sequence < 3; ++sequence) {
    const Answer got = answer(kernel, poisoned(sequence));
    for (int64_t row = 0; row < clean.shape.rows(); ++row) {
      const int64_t query = row % clean.shape.q;
      const bool own = query >= clean.q_starts[sequence] && query < clean.q_starts[sequence + 1];
      CHECK(std::isnan(got.lse[row]) == own);
      if (!own) CHECK(got.lse[row] == expected.lse[row]);
    }
  }
}

void a_row_may_see_nothing(const Kernel& kernel) {
  Problem problem = causal({1, 1, 200, 70, 64});  // the first 130 rows see no key
  const Answer got = answer(kernel, problem);
  for (int64_t row = 0; row < 200; ++row) {
    CHECK((got.lse[row] == -INFINITY) == (row < 130));
    if (row < 130) CHECK(got.o[row * 64] == 0);
  }
  for (float& q : problem.q) q = std::nanf("");
  const Answer all_nan = answer(kernel, problem);
  CHECK(std::isnan(all_nan.o[150 * 64]));  // l = 0 would have hidden the NaN
  CHECK(all_nan.o[0] == 0);
}

void agrees_with_sinks(const Kernel& kernel) {
  const auto check_with_sinks = [&](Problem problem, bool by_length = false) {
    problem.sinks = random_sinks(problem, 1);
    check_agrees(kernel, problem, by_length);
    problem.sinks[0] = -INFINITY;
    check_agrees(kernel, problem, by_length);
  };
  for (const Shape& shape : {Shape{1, 3, 1, 1, 64}, Shape{1, 2, 65, 127, 64},
                             Shape{2, 2, 130, 300, 128}, Shape{1, 2, 1, 700, 64}}) {
    check_with_sinks(random_problem(shape, Dtype::bf16, 1));
  }
  check_with_sinks(random_problem({1, 2, 70, 200, 64}, Dtype::bf16, 1, 10.0));
  check_with_sinks(causal({1, 2, 200, 70, 64}));  // the first 130 rows see the sink only
  check_with_sinks(causal({1, 2, 257, 513, 64}));
  check_with_sinks(window({1, 2, 300, 260, 128}, 20, 5));
  Problem shared = random_problem({2, 6, 70, 90, 64}, Dtype::bf16, 4, 1, 3);
  shared.causal = true;
  check_with_sinks(shared, true);
  Problem sequences = packed({1, 0, 130, 40, 5}, {7, 30, 70, 0, 140}, 64);
  check_with_sinks(sequences);
  sequences.causal = true;
  sequences.window_left = 20;
  check_with_sinks(sequences);
}

void sinks_may_be_none_or_large(const Kernel& kernel) {
  Problem problem = causal({1, 5, 200, 70, 64});
  const Answer without = answer(kernel, problem);
  problem.sinks = {-INFINITY, 1000, -1000, 30000, std::nanf("")};
  const Answer got = answer(kernel, problem);
  CHECK(got.report.hazards.empty());
  for (int64_t row = 0; row < problem.shape.rows(); ++row) {
    const int64_t head = row / 200;
    const float sink = problem.sinks[head], o = got.o[row * 64];
    const bool sees = row % 200 >= 130;
    if (head == 4) {
      CHECK(std::isnan(got.lse[row]));
      CHECK((std::isnan(o) || !sees));
    } else if (head == 0 || (head == 2 && sees)) {  // the sink has no weight
      CHECK(got.lse[row] == without.lse[row]);
      CHECK(o == without.o[row * 64]);
    } else {  // the sink has all
      CHECK(std::abs(got.lse[row] - sink) <= 1e-6f * std::abs(sink));
      CHECK(o == 0);
    }
  }
}

}  // namespace fa::test
