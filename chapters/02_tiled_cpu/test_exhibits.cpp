// Bugs of production kernels, each as one break, with the symptom that docs/break-it.md describes,
// and an input for which a test would have missed it.
#include <doctest/doctest.h>

#include <cmath>

#include "attention.hpp"
#include "common/check.hpp"

using namespace ch02;
using fa::Dtype;

namespace {

struct Result {
  std::vector<float> o, lse;
  std::vector<TraceStep> trace;
};

Result run(const fa::Problem& problem, uint32_t breaks, Options options = {}) {
  options.breaks = breaks;
  Result result{std::vector<float>(problem.shape.q_elements(), std::nanf("")),
                std::vector<float>(problem.shape.rows(), std::nanf("")),
                {}};
  result.trace = attend(problem, options, result.o, result.lse).trace;
  return result;
}

fa::CheckResult check(fa::Problem problem, const Result& result, const Options& options = {}) {
  set_reference_modifier(problem, options.modifier);
  return fa::check_output(problem, result.o, result.lse);
}

fa::Problem random(const fa::Shape& shape, bool causal = false, double input_scale = 1,
                   Dtype dtype = Dtype::f32) {
  fa::Problem problem = fa::random_problem(shape, dtype, 0, input_scale);
  problem.causal = causal;
  return problem;
}

// `keys` keys that all have the score `x`, with D = 1. Every value is 1.
fa::Problem equal_scores(int64_t keys, float x, Dtype dtype) {
  fa::Problem problem;
  problem.shape = {1, 1, 1, keys, 1};
  problem.dtype = dtype;
  problem.q = {1};
  problem.k.assign(keys, x);
  problem.v.assign(keys, 1.0f);
  return problem;
}

bool row_is_finite(const Result& result, int64_t row, int64_t dim) {
  for (int64_t d = 0; d < dim; ++d) {
    if (!std::isfinite(result.o[row * dim + d])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("state-reset-per-block: a query keeps only what it sees in the tile that the mask cuts") {
  const fa::Problem problem = random({1, 1, 192, 192, 32}, true);
  const Result intact = run(problem, 0), broken = run(problem, kStateResetPerBlock);
  CHECK(check(problem, intact).passed());
  const fa::CheckResult result = check(problem, broken);
  CHECK(result.o.nonfinite == 0);
  CHECK(result.o.max_abs_error > 0.5);
  CHECK(result.o.first_bad / 32 == 64);  // the first tile of queries has no earlier tile of keys
  // Exactly the attention of each tile of queries to the tile of keys at the same position.
  for (int64_t tile = 0; tile < 3; ++tile) {
    const auto piece = [&](const std::vector<float>& x) {
      return std::vector<float>(x.begin() + tile * 64 * 32, x.begin() + (tile + 1) * 64 * 32);
    };
    fa::Problem alone = problem;
    alone.shape.q = alone.shape.kv = 64;
    alone.q = piece(problem.q), alone.k = piece(problem.k), alone.v = piece(problem.v);
    CHECK(run(alone, 0).o == piece(broken.o));
  }
}

TEST_CASE("state-reset-per-block: without a mask, or up to one tile, no test can see it") {
  for (const fa::Problem& problem : {random({1, 2, 192, 192, 32}), random({1, 2, 64, 64, 32}, true),
                                     random({1, 2, 40, 40, 32}, true)}) {
    CHECK(check(problem, run(problem, kStateResetPerBlock)).passed());
  }
}

TEST_CASE("max-stuck-after-masked-tile: 0/0 where a window hides a tile and all scores are low") {
  Options window;
  window.modifier = {ModifierChoice::kWindow, false, 32};
  const fa::Problem problem = random({1, 1, 256, 256, 64}, false, -200);
  CHECK(check(problem, run(problem, 0, window), window).passed());
  const Result broken = run(problem, kMaxStuckAfterMaskedTile, window);
  const fa::CheckResult result = check(problem, broken, window);
  CHECK(result.o.nonfinite > 500);
  CHECK(result.o.mismatches - result.o.nonfinite < 10);  // NaN, correct, or subnormal
  for (int64_t row = 0; row < 64; ++row) CHECK(row_is_finite(broken, row, 64));
  for (int64_t row = 64; row < 256; ++row) {
    // The first 31 queries of a tile also see keys of the previous tile, so m was finite there.
    if (row % 64 < 31) CHECK(row_is_finite(broken, row, 64));
  }
}

TEST_CASE("max-stuck-after-masked-tile: on ordinary scores the maximum recovers") {
  Options window;
  window.modifier = {ModifierChoice::kWindow, false, 32};
  const fa::Problem problem = random({1, 1, 256, 256, 64});
  CHECK(check(problem, run(problem, kMaxStuckAfterMaskedTile, window), window).passed());
  // Without a window, each query sees at least one key of every tile that is not skipped.
  const fa::Problem causal = random({1, 1, 256, 256, 64}, true, -200);
  CHECK(check(causal, run(causal, 0)).passed());
  CHECK(check(causal, run(causal, kMaxStuckAfterMaskedTile)).passed());
  // This changes if tiles of queries are larger than tiles of keys.
  Options tall;
  tall.tiling = {64, 16};
  CHECK_FALSE(check(causal, run(causal, kMaxStuckAfterMaskedTile, tall)).passed());
  // A query that sees no key: 0/0 instead of 0.
  const fa::Problem unseeing = random({1, 1, 70, 10, 8}, true);
  CHECK(run(unseeing, 0).o[0] == 0);
  CHECK(std::isnan(run(unseeing, kMaxStuckAfterMaskedTile).o[0]));
}

TEST_CASE("finite-sentinel: a query that sees no key averages V, finite and without a warning") {
  const fa::Problem problem = random({1, 1, 70, 10, 8}, true);  // queries 0 to 59 see no key
  CHECK(check(problem, run(problem, 0)).passed());
  const Result broken = run(problem, kFiniteSentinel);
  const fa::CheckResult result = check(problem, broken);
  CHECK(result.o.nonfinite == 0);
  CHECK(result.o.first_bad == 0);
  for (int64_t d = 0; d < 8; ++d) {
    float sum = 0;
    for (int64_t j = 0; j < 10; ++j) sum += problem.v[j * 8 + d];
    CHECK(broken.o[d] == doctest::Approx(sum / 64));  // 10 hidden keys and 54 rows of padding
  }
  // Not −inf, so that a merge with another state would use this value.
  CHECK(broken.lse[0] == doctest::Approx(-5e4 + std::log(64.0)).epsilon(1e-6));
}

TEST_CASE("finite-sentinel: scores below it lose to hidden keys; ordinary masks do not notice") {
  const fa::Problem ordinary = random({1, 1, 192, 192, 32}, true);
  CHECK(check(ordinary, run(ordinary, kFiniteSentinel)).passed());
  const fa::Problem low = random({1, 1, 64, 64, 64}, true, -5e4);
  CHECK(check(low, run(low, 0)).passed());
  const fa::CheckResult result = check(low, run(low, kFiniteSentinel));
  CHECK(result.o.nonfinite == 0);
  CHECK(result.o.max_abs_error > 0.5);
}

TEST_CASE("sum-in-16-bit: a sum of ones stops at 256 in bf16 and at 2048 in fp16") {
  const struct {
    Dtype dtype;
    int64_t last;  // 2^(significant bits): adding 1 to it rounds back
  } cases[] = {{Dtype::bf16, 256}, {Dtype::f16, 2048}};
  for (const auto& [dtype, last] : cases) {
    for (const int64_t keys : {last / 2, last, 2 * last, 4 * last}) {
      const fa::Problem problem = equal_scores(keys, 1.0f, dtype);
      CHECK(run(problem, 0).o[0] == 1);
      const float times = static_cast<float>(keys) / static_cast<float>(std::min(keys, last));
      CHECK(run(problem, kSumIn16Bit).o[0] == times);
    }
  }
  CHECK(run(equal_scores(4096, 1.0f, Dtype::f32), kSumIn16Bit).o[0] == 1);
}

TEST_CASE("sum-in-16-bit: fails from 32 random keys on, worse with length") {
  double before = 0;
  for (const int64_t keys : {32, 512, 2048, 8192}) {
    const fa::Problem problem = random({1, 1, 64, keys, 64}, false, 1, Dtype::bf16);
    CHECK(check(problem, run(problem, 0)).passed());
    const fa::CheckResult result = check(problem, run(problem, kSumIn16Bit));
    CHECK(result.o.nonfinite == 0);
    CHECK_FALSE(result.passed());
    CHECK(result.o.relative_error > before);
    before = result.o.relative_error;
  }
  CHECK(before > 0.5);
}

TEST_CASE("no-rescale: right where all tiles have the same maximum, worse the more they differ") {
  fa::Problem periodic = random({1, 1, 64, 256, 64}, false, 3);
  for (auto* x : {&periodic.k, &periodic.v}) {  // the same tile four times
    for (size_t i = 64 * 64; i < x->size(); ++i) (*x)[i] = (*x)[i - 64 * 64];
  }
  CHECK(check(periodic, run(periodic, kNoRescale)).passed());
  double before = 0;
  for (const double scale : {0.1, 0.3, 1.0, 3.0}) {
    const fa::Problem problem = random({1, 1, 64, 1024, 64}, false, scale);
    const fa::CheckResult result = check(problem, run(problem, kNoRescale));
    CHECK_FALSE(result.passed());
    CHECK(result.o.relative_error > 2 * before);
    before = result.o.relative_error;
  }
  CHECK(before > 0.5);
}

TEST_CASE("the running maximum of 16 random tiles changes 1/2 + 1/3 + ... + 1/16 times") {
  int changes = 0, queries = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {  // one query per problem
    const fa::Problem problem = fa::random_problem({1, 1, 1, 1024, 64}, Dtype::f32, seed);
    Options options;
    options.traced_row = 0;
    ++queries;
    for (const TraceStep& step : run(problem, 0, options).trace) {
      changes += step.kv_tile > 0 && step.rescale != 1;
    }
  }
  CHECK(std::abs(changes / double(queries) - 2.38) < 0.25);  // 3 standard errors
}
