// Compares every algorithm with float64: shapes, types, masks, block sizes, memory, golden cases.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "attention.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/npy.hpp"
#include "fast.hpp"

using namespace ch02;
using fa::Dtype;
using fa::Shape;

namespace {

struct Result {
  std::vector<float> o, lse;
  Report report;
};

Result attend(const fa::Problem& problem, const Options& options = {}) {
  const float unwritten = std::nanf("");
  Result result{std::vector<float>(problem.shape.q_elements(), unwritten),
                std::vector<float>(problem.shape.rows(), unwritten),
                {}};
  result.report = attend(problem, options, result.o, result.lse);
  return result;
}

fa::Problem make(const Shape& shape, Dtype dtype = Dtype::f32, bool causal = false,
                 uint64_t seed = 0, double input_scale = 1) {
  fa::Problem problem = fa::random_problem(shape, dtype, seed, input_scale);
  problem.causal = causal;
  return problem;
}

Options with(Algorithm algorithm, Tiling tiling = {}) {
  Options options;
  options.algorithm = algorithm;
  options.tiling = tiling;
  return options;
}

void check_agrees(const fa::Problem& problem, const Options& options) {
  CAPTURE(std::string(name(options.algorithm)));
  CAPTURE(std::string(name(problem.dtype)));
  CAPTURE(to_string(problem.shape));
  CAPTURE(problem.causal);
  CAPTURE(options.tiling.block_q);
  CAPTURE(options.tiling.block_kv);
  const Result result = attend(problem, options);
  const fa::CheckResult check = fa::check_output(problem, result.o, result.lse);
  INFO(fa::describe(check, problem.shape));
  CHECK(check.passed());
  CHECK(check.rows_checked == check.rows);
}

}  // namespace

TEST_CASE("every algorithm, type and mask on random ragged shapes") {
  std::mt19937_64 random(1);
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  for (const AlgorithmName& one : kAlgorithms) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      if (one.algorithm == Algorithm::fast && dtype != Dtype::f32) continue;
      for (const bool causal : {false, true}) {
        for (int round = 0; round < 6; ++round) {
          const Shape shape{up_to(2), up_to(3), up_to(150), up_to(150), up_to(100)};
          const Options options = with(one.algorithm, {up_to(70), up_to(70)});
          check_agrees(make(shape, dtype, causal, random()), options);
        }
      }
    }
  }
}

TEST_CASE("smallest and edge shapes, every algorithm") {
  for (const AlgorithmName& one : kAlgorithms) {
    for (const bool causal : {false, true}) {
      for (const Shape& shape :
           {Shape{1, 1, 1, 1, 1}, Shape{1, 1, 1, 200, 3}, Shape{2, 1, 65, 1, 2},
            Shape{1, 1, 64, 64, 256}, Shape{1, 1, 129, 63, 1}}) {
        check_agrees(make(shape, Dtype::f32, causal), with(one.algorithm));
      }
    }
  }
}

TEST_CASE("ragged shapes with their block sizes, causal") {
  const struct {
    int64_t length, dim;
    Tiling tiling;
  } cases[] = {{257, 64, {64, 64}}, {513, 64, {128, 128}}, {777, 80, {128, 64}}};
  for (const auto& [length, dim, tiling] : cases) {
    const fa::Problem problem = make({1, 1, length, length, dim}, Dtype::f32, true);
    check_agrees(problem, with(Algorithm::tiled, tiling));
    const std::vector<float> plain = attend(problem, with(Algorithm::safe)).o;
    CHECK(fa::largest_difference(attend(problem, with(Algorithm::tiled, tiling)).o, plain) < 4e-6);
  }
}

TEST_CASE("block sizes change the rounding and nothing else") {
  const fa::Problem problem = make({2, 4, 256, 256, 32});
  const std::vector<float> plain = attend(problem, with(Algorithm::safe)).o;
  for (const int64_t block : {16, 32, 64, 128}) {
    const double difference =
        fa::largest_difference(attend(problem, with(Algorithm::tiled, {block, block})).o, plain);
    CAPTURE(block);
    CAPTURE(difference);
    CHECK(difference < 3e-6);
    CHECK(difference > 0);  // the sums run in another order, so the bits differ
  }
}

TEST_CASE("the number of threads changes no bit") {
  const fa::Problem problem = make({1, 3, 200, 170, 48}, Dtype::f32, true);
  for (const AlgorithmName& one : kAlgorithms) {
    Options single = with(one.algorithm), several = single;
    single.threads = 1;
    several.threads = 5;
    const Result a = attend(problem, single), b = attend(problem, several);
    CAPTURE(std::string(one.name));
    CHECK(a.o == b.o);
    CHECK(a.lse == b.lse);
  }
}

TEST_CASE("scale: given, zero, negative; sharp and very negative scores") {
  for (const AlgorithmName& one : kAlgorithms) {
    for (const double scale : {0.3, 0.0, -0.4}) {
      fa::Problem problem = make({1, 2, 70, 90, 24}, Dtype::f32, true);
      problem.scale = scale;
      check_agrees(problem, with(one.algorithm));
    }
    if (one.algorithm == Algorithm::native)
      continue;  // overflows, which the other algorithms
                 // avoid
    check_agrees(make({1, 2, 70, 90, 64}, Dtype::f32, false, 3, 50), with(one.algorithm));
    fa::Problem negative = make({1, 1, 40, 130, 16}, Dtype::f32, true);
    for (float& value : negative.q) value = std::abs(value) + 30;
    for (float& value : negative.k) value = -std::abs(value) - 30;  // every score is below -3600
    check_agrees(negative, with(one.algorithm));
  }
}

TEST_CASE("16-bit types: flat, ordinary and sharp scores, every algorithm that takes them") {
  for (const AlgorithmName& one : kAlgorithms) {
    if (one.algorithm == Algorithm::fast) continue;
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
      for (const double input_scale : {0.1, 1.0, 30.0}) {
        if (one.algorithm == Algorithm::native && input_scale > 1) continue;  // overflows
        for (const Shape& shape : {Shape{1, 1, 1, 300, 64}, Shape{1, 2, 33, 130, 64},
                                   Shape{1, 1, 1, 2, 8}, Shape{1, 1, 5, 1000, 128}}) {
          for (uint64_t seed = 0; seed < 5; ++seed) {
            check_agrees(make(shape, dtype, seed % 2 == 1, seed, input_scale),
                         with(one.algorithm, {64, shape.kv > 200 ? 64 : 7}));
          }
        }
      }
    }
  }
}

TEST_CASE("P is rounded to the element type, and l sums the rounded P") {
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<float> s(48), o(2);
    for (float& score : s) score = std::normal_distribution<float>()(random);
    float m = -kInfinity<float>, l = 0;
    update_row<fa::bf16>(std::span(s), m, l, std::span(o), Intact{});
    float sum = 0;
    for (const float p : s) {
      CHECK(p == fa::round_to(Dtype::bf16, p));
      sum += p;
    }
    CHECK(l == sum);
  }
}

TEST_CASE("rows that see no key: 0 and -inf, decided by m") {
  const fa::Problem problem = make({1, 2, 90, 33, 16}, Dtype::f32, true);
  for (const AlgorithmName& one : kAlgorithms) {
    const Result result = attend(problem, with(one.algorithm));
    CAPTURE(std::string(one.name));
    for (int64_t query = 0; query < 57; ++query) {
      CHECK(result.lse[query] == -std::numeric_limits<float>::infinity());
      for (int64_t d = 0; d < 16; ++d) CHECK(result.o[query * 16 + d] == 0);
    }
    CHECK(std::isfinite(result.lse[57]));
  }
}

TEST_CASE("causal: tiles hidden as a whole are skipped and counted") {
  const fa::Problem square = make({1, 1, 256, 256, 16}, Dtype::f32, true);
  const Counts counts = attend(square).report.counts;  // a 4 x 4 grid
  CHECK(counts.tiles_skipped == 6);
  CHECK(counts.tiles == 10);
  const Counts all = attend(make({1, 1, 256, 256, 16})).report.counts;
  CHECK(all.tiles_skipped == 0);
  CHECK(all.tiles == 16);
  // More queries than keys, so that the first tiles of queries see no key.
  const Counts tall = attend(make({1, 1, 256, 64, 16}, Dtype::f32, true)).report.counts;
  CHECK(tall.tiles_skipped == 3);
}

TEST_CASE("a tile that hides() calls hidden has no visible score, and the other way round") {
  const Shape shape{1, 1, 100, 130, 1};
  const int64_t offset = shape.kv - shape.q;
  const auto check = [&](const auto& modifier) {
    for (int64_t q = 0; q < shape.q; q += 16) {
      for (int64_t k = 0; k < shape.kv; k += 24) {
        const Range queries{q, std::min(q + 16, shape.q)}, keys{k, std::min(k + 24, shape.kv)};
        bool visible = false;
        for (int64_t i = queries.begin; i < queries.end; ++i) {
          for (int64_t j = keys.begin; j < keys.end; ++j) visible |= modifier(1, i, j) > -1e30f;
        }
        CHECK(modifier.hides(queries, keys) == !visible);
      }
    }
  };
  check(NoModifier{});
  check(Causal{offset});
  check(Causal{-30});
  check(SlidingWindow{offset, 1});
  check(SlidingWindow{offset, 20});
  check(Alibi{offset, 0.5f, true});
  check(Alibi{offset, 0.5f, false});
}

TEST_CASE("ALiBi and sliding window, every algorithm that takes them, against float64") {
  for (const AlgorithmName& one : kAlgorithms) {
    if (one.algorithm == Algorithm::fast) continue;
    for (const auto kind : {ModifierChoice::kAlibi, ModifierChoice::kWindow}) {
      for (const bool causal : {false, true}) {
        for (const Shape& shape :
             {Shape{2, 4, 100, 100, 16}, Shape{1, 3, 70, 150, 8}, Shape{1, 2, 90, 33, 8}}) {
          Options options = with(one.algorithm, {32, 48});
          options.modifier = {kind, causal, 20};
          fa::Problem problem = make(shape, Dtype::f32, causal);
          set_reference_modifier(problem, options.modifier);
          check_agrees(problem, options);
          // The modifier has an effect, because without it the check fails.
          options.modifier.kind = ModifierChoice::kNone;
          const Result without = attend(problem, options);
          CHECK_FALSE(fa::check_output(problem, without.o, without.lse).passed());
        }
      }
    }
  }
}

// ---- Memory ----

TEST_CASE(
    "the score matrix: 1 MiB at L = 512, times four at each doubling, and nothing else grows") {
  for (const int64_t length : {512, 1024, 2048}) {
    Options options = with(Algorithm::safe);
    options.threads = 1;
    const Result naive = attend(make({1, 1, length, length, 64}), options);
    CHECK(naive.report.peak_bytes - FastMemory::bytes({}, 64) == 4 * length * length);
    options.algorithm = Algorithm::tiled;
    const Result tiled = attend(make({1, 1, length, length, 64}), options);
    CHECK(tiled.report.peak_bytes == FastMemory::bytes({}, 64));
  }
  Options options = with(Algorithm::safe);
  options.threads = 1;
  const Result half = attend(make({1, 1, 512, 512, 64}, Dtype::f16), options);
  CHECK(half.report.peak_bytes - FastMemory::bytes({}, 64) == 4 * 512 * 512);  // S is always fp32
}

TEST_CASE("tiled and fast: under 1 MiB a thread at any length") {
  for (const Shape& shape : {Shape{1, 1, 1, 100000, 64}, Shape{1, 1, 100000, 1, 64},
                             Shape{1, 1, 300, 300, 256}, Shape{1, 2, 5, 20000, 256}}) {
    for (const Algorithm algorithm : {Algorithm::tiled, Algorithm::fast}) {
      Options options = with(algorithm);
      options.threads = 1;
      CAPTURE(std::string(name(algorithm)));
      CAPTURE(to_string(shape));
      const Report report = attend(make(shape), options).report;
      CHECK(report.peak_bytes > 0);
      CHECK(report.peak_bytes <= kFastMemoryLimit);
    }
  }
}

TEST_CASE("--memory-limit: naive says that it cannot, and at which length it still could") {
  const fa::Problem problem = make({1, 1, 600, 600, 64});
  Options options = with(Algorithm::safe);
  options.threads = 1;
  options.memory_limit = 512 * 512 * 4 + FastMemory::bytes({}, 64);
  std::string message;
  try {
    attend(problem, options);
  } catch (const fa::InputError& error) {
    message = error.what();
  }
  CHECK(message.find("the longest Lq = Lkv that fits is 512") != std::string::npos);
  attend(make({1, 1, 512, 512, 64}), options);  // it does
  CHECK_THROWS_AS(attend(make({1, 1, 513, 513, 64}), options), fa::InputError);
  options.algorithm = Algorithm::tiled;
  attend(problem, options);
  options.memory_limit = 1000;
  CHECK_THROWS_AS(attend(problem, options), fa::InputError);
}

// ---- Bytes moved ----

TEST_CASE("bytes moved: exactly those of the formulas") {
  constexpr int64_t n = 256, d = 32, tiles = 4, heads = 3;
  const fa::Problem problem = make({1, heads, n, n, d});
  const Counts tiled = attend(problem).report.counts;
  CHECK(tiled.bytes_read == heads * 4 * (n * d + tiles * 2 * n * d));  // Q once, K and V 4 times
  CHECK(tiled.bytes_written == heads * 4 * (n * d + n));               // O and log-sum-exp
  const int64_t products_read = n * d + tiles * 2 * n * d;             // the same tiles
  const Counts native = attend(problem, with(Algorithm::native)).report.counts;
  const Counts safe = attend(problem, with(Algorithm::safe)).report.counts;
  const Counts online = attend(problem, with(Algorithm::online)).report.counts;
  CHECK(safe.bytes_read == heads * 4 * (products_read + (3 + 1) * n * n));  // softmax 3, P @ V 1
  CHECK(native.bytes_read == heads * 4 * (products_read + (2 + 1) * n * n));
  CHECK(online.bytes_read == native.bytes_read);
  CHECK(safe.bytes_written == heads * 4 * (2 * n * n + n * d + n));  // S, P, O, log-sum-exp
}

// ---- What is refused ----

TEST_CASE("what validate refuses") {
  const fa::Problem wide = make({1, 1, 2, 2, 257}), problem = make({1, 1, 8, 8, 8});
  CHECK_THROWS_AS(validate(wide, {}), fa::InputError);
  validate(make({1, 1, 2, 2, 256}), {});
  CHECK_THROWS_AS(validate(make({1, 1, 2, 2, 8}, Dtype::f16), with(Algorithm::fast)),
                  fa::InputError);
  CHECK_THROWS_AS(validate(problem, with(Algorithm::tiled, {512, 512})), fa::InputError);
  Options options = with(Algorithm::safe);
  options.breaks = kNoMax;
  CHECK_THROWS_AS(validate(problem, options), fa::InputError);
  options = with(Algorithm::tiled);
  options.traced_row = 8;
  CHECK_THROWS_AS(validate(problem, options), fa::InputError);
  options.traced_row = 7;
  validate(problem, options);
}

// ---- Golden cases, made by NumPy ----

TEST_CASE("golden cases of reference/make_cases.py") {
  const std::string golden = FA_BINARY_DIR "/golden/";
  std::ifstream list(golden + "cases.json");
  REQUIRE_MESSAGE(list.good(), "no golden cases: build the target fa_golden");
  const auto names = nlohmann::json::parse(list);
  REQUIRE(names.size() >= 20);
  for (const std::string case_name : names) {
    CAPTURE(case_name);
    const std::string path = golden + case_name + "/";
    std::ifstream description(path + "case.json");
    const auto about = nlohmann::json::parse(description);
    fa::Problem problem;
    const auto& shape = about["shape"];
    problem.shape = {shape["batch"], shape["heads"], shape["q"], shape["kv"], shape["dim"]};
    problem.causal = about["causal"];
    problem.scale = about["scale"];
    const std::string dtype = about["dtype"];
    problem.dtype = dtype == "f16" ? Dtype::f16 : dtype == "bf16" ? Dtype::bf16 : Dtype::f32;
    problem.q = fa::read_npy(path + "q.npy").floats();
    problem.k = fa::read_npy(path + "k.npy").floats();
    problem.v = fa::read_npy(path + "v.npy").floats();
    const std::vector<double> o = fa::read_npy(path + "o.npy").doubles();
    REQUIRE(static_cast<int64_t>(o.size()) == problem.shape.q_elements());
    for (const AlgorithmName& one : kAlgorithms) {
      if (one.algorithm == Algorithm::fast && problem.dtype != Dtype::f32) continue;
      if (one.algorithm == Algorithm::native &&  // overflows or underflows in this type
          (case_name.find("sharp") != std::string::npos ||
           case_name.find("very_negative") != std::string::npos)) {
        continue;
      }
      CAPTURE(std::string(one.name));
      const Result result = attend(problem, with(one.algorithm, {32, 48}));
      const fa::CheckResult check = fa::check_output(problem, result.o, result.lse);
      CHECK(check.passed());
      // The output of NumPy must be within the same bound. float64 inputs are rounded to fp32
      // first.
      const double rounding = dtype == "f64" ? 1e-4 : 0;
      const int64_t rows = problem.shape.rows(), dim = problem.shape.dim;
      const fa::Comparison golden_check = fa::compare(
          {result.o.data(), rows, dim}, {o.data(), rows, dim}, check.o.bound + rounding);
      CHECK(golden_check.passed());
    }
  }
}
