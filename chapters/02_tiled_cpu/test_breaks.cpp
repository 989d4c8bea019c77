// Each break and the symptom that the lesson describes.
#include <doctest/doctest.h>

#include <cmath>

#include "attention.hpp"
#include "common/check.hpp"

using namespace ch02;
using fa::Dtype;

namespace {

struct Result {
  std::vector<float> o, lse;
  Report report;
};

Result run(const fa::Problem& problem, uint32_t breaks, Tiling tiling = {},
           std::optional<int64_t> traced_row = {}) {
  Options options;
  options.tiling = tiling;
  options.breaks = breaks;
  options.traced_row = traced_row;
  Result result{std::vector<float>(problem.shape.q_elements(), std::nanf("")),
                std::vector<float>(problem.shape.rows(), std::nanf("")),
                {}};
  result.report = attend(problem, options, result.o, result.lse);
  return result;
}

fa::CheckResult check(const fa::Problem& problem, const Result& result) {
  return fa::check_output(problem, result.o, result.lse);
}

// One query with D = 1, q = 1 and scale 1, so that the keys are the scores. Every value is 1.
fa::Problem scores(std::vector<float> x, Dtype dtype = Dtype::f32) {
  const int64_t keys = static_cast<int64_t>(x.size());
  fa::Problem problem;
  problem.shape = {1, 1, 1, keys, 1};
  problem.dtype = dtype;
  problem.q = {1};
  problem.k = std::move(x);
  problem.v.assign(keys, 1.0f);
  return problem;
}

// Returns the tile in which l becomes nonfinite, or −1.
int64_t first_overflowing_tile(const Result& result) {
  for (const TraceStep& step : result.report.trace) {
    if (!std::isfinite(step.l)) return step.kv_tile;
  }
  return -1;
}

fa::Problem random(const fa::Shape& shape, bool causal = false, uint64_t seed = 0) {
  fa::Problem problem = fa::random_problem(shape, Dtype::f32, seed);
  problem.causal = causal;
  return problem;
}

}  // namespace

TEST_CASE("without a break everything here agrees") {
  CHECK(check(random({1, 2, 100, 130, 32}), run(random({1, 2, 100, 130, 32}), 0)).passed());
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const float x : {-300.0f, -20.0f, 0.0f, 20.0f, 300.0f}) {
      const Result result = run(scores(std::vector<float>(100, x), dtype), 0);
      CHECK(result.o[0] == 1);
      CHECK(result.lse[0] == doctest::Approx(x + std::log(100.0)));
    }
  }
}

TEST_CASE("no-max: fine below the threshold, not finite above") {
  const struct {
    Dtype dtype;
    float fine, broken;
  } single[] = {{Dtype::f32, 88.7f, 88.75f},   // e^88.73 exceeds fp32
                {Dtype::bf16, 88.5f, 89.0f},   // bf16 has the same exponent range as fp32
                {Dtype::f16, 11.08f, 11.1f}};  // e^11.09 = 65535 exceeds fp16
  for (const auto& [dtype, fine, broken] : single) {
    const std::string type = name(dtype);
    CAPTURE(type);
    const Result below = run(scores({fine}, dtype), kNoMax);
    CHECK(below.o[0] == 1);
    CHECK(below.lse[0] == doctest::Approx(fine).epsilon(1e-2));
    const Result above = run(scores({broken}, dtype), kNoMax);
    CHECK(std::isnan(above.o[0]));  // Inf / Inf
    CHECK(above.lse[0] == kInfinity<float>);
  }
}

TEST_CASE("no-max: the sum overflows ln n earlier in fp32; P in fp16 with l in fp32 does not") {
  const auto sum_of = [](Dtype dtype, float x, int64_t keys) {
    return run(scores(std::vector<float>(keys, x), dtype), kNoMax).lse[0];
  };
  for (const int64_t keys : {16, 1024}) {
    const float threshold = 88.722f - std::log(static_cast<float>(keys));
    CHECK(std::isfinite(sum_of(Dtype::f32, threshold - 0.01f, keys)));
    CHECK(sum_of(Dtype::f32, threshold + 0.01f, keys) == kInfinity<float>);
    CHECK(std::isfinite(sum_of(Dtype::f16, 11.08f, keys)));
    CHECK(sum_of(Dtype::f16, 11.1f, keys) == kInfinity<float>);
  }
}

TEST_CASE("no-max: o overflows before l does where |v| > 1: Inf first, NaN later") {
  fa::Problem problem = scores({88.0f});
  problem.v = {10.0f};
  const Result result = run(problem, kNoMax);
  CHECK(result.o[0] == kInfinity<float>);
  CHECK(std::isfinite(result.lse[0]));
}

TEST_CASE("no-max: at which tile it starts, scores 0, 0.5, 1, ... in tiles of 16 keys") {
  std::vector<float> ramp(256);
  for (size_t j = 0; j < ramp.size(); ++j) ramp[j] = 0.5f * static_cast<float>(j);
  const auto first = [&](Dtype dtype, uint32_t breaks) {
    return first_overflowing_tile(run(scores(ramp, dtype), breaks, {16, 16}, 0));
  };
  CHECK(first(Dtype::f16, kNoMax) == 1);   // key 23: e^11.5
  CHECK(first(Dtype::f32, kNoMax) == 11);  // key 178: e^89, or the sum one key earlier (tile 11)
  CHECK(first(Dtype::bf16, kNoMax) == 11);
  CHECK(first(Dtype::f16, 0) == -1);
  CHECK(first(Dtype::f32, 0) == -1);
}

TEST_CASE("no-rescale: finite, and wrong by more than 0.1") {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const fa::Problem problem = random({1, 2, 256, 256, 64}, false, seed);
    const fa::CheckResult result = check(problem, run(problem, kNoRescale));
    CHECK_FALSE(result.passed());
    CHECK(result.o.nonfinite == 0);
    CHECK(result.o.max_abs_error > 0.1);
    CHECK(result.o.max_abs_error < 2);
  }
  // With one tile nothing is rescaled.
  const fa::Problem problem = random({1, 2, 64, 64, 64});
  CHECK(check(problem, run(problem, kNoRescale)).passed());
}

TEST_CASE("no-rescale: exactly the average of the tiles by their raw sums") {
  // Two tiles of one key each, with scores 0 and 5. Both have the weight e^0 = 1.
  fa::Problem problem = scores({0.0f, 5.0f});
  problem.v = {10.0f, 20.0f};
  CHECK(run(problem, kNoRescale, {1, 1}).o[0] == 15);
  CHECK(run(problem, 0, {1, 1}).o[0] ==
        doctest::Approx((10 + 20 * std::exp(5)) / (1 + std::exp(5))));
}

TEST_CASE("max-starts-at-zero: harmless until every score is far below 0, then 0/0") {
  const fa::Problem problem = random({1, 2, 100, 130, 32});
  CHECK(check(problem, run(problem, kMaxStartsAtZero)).passed());
  const struct {
    Dtype dtype;
    float fine, broken;
  } cases[] = {{Dtype::f32, -87.0f, -104.0f},  // e^-104 rounds to 0 in fp32
               {Dtype::bf16, -87.0f, -104.0f},
               {Dtype::f16, -9.0f, -17.5f}};  // e^-17.4 in fp16, which is subnormal below e^-9.7
  for (const auto& [dtype, fine, broken] : cases) {
    const std::string type = name(dtype);
    CAPTURE(type);
    const Result still = run(scores(std::vector<float>(100, fine), dtype), kMaxStartsAtZero);
    CHECK(still.o[0] == doctest::Approx(1));
    CHECK(still.lse[0] == doctest::Approx(fine + std::log(100.0)).epsilon(1e-3));
    const Result gone = run(scores(std::vector<float>(100, broken), dtype), kMaxStartsAtZero);
    CHECK(std::isnan(gone.o[0]));
    CHECK(gone.lse[0] == -kInfinity<float>);
  }
  // A query that sees no key also has m = 0 instead of −inf, so it computes 0/0.
  const fa::Problem tall = random({1, 1, 70, 10, 8}, true);
  const Result result = run(tall, kMaxStartsAtZero);
  CHECK(result.o[0] != result.o[0]);
}

TEST_CASE("tile-relative-mask: right in the first tile of queries, wrong from the second on") {
  const fa::Problem problem = random({1, 1, 192, 192, 32}, true);
  const Result intact = run(problem, 0), broken = run(problem, kTileRelativeMask);
  const auto same = [&](int64_t row) {
    return std::equal(intact.o.begin() + row * 32, intact.o.begin() + row * 32 + 32,
                      broken.o.begin() + row * 32);
  };
  for (int64_t row = 0; row < 64; ++row) CHECK(same(row));
  for (int64_t row = 64; row < 192; ++row) {
    CAPTURE(row);
    CHECK(same(row) == (row % 64 == 63));  // the last row of a tile sees the whole tile
  }
  const fa::CheckResult result = check(problem, broken);
  CHECK(result.o.nonfinite == 0);
  CHECK(result.o.first_bad / 32 == 64);
  // Without a mask the positions do not matter.
  CHECK(check(random({1, 1, 192, 192, 32}), run(random({1, 1, 192, 192, 32}), kTileRelativeMask))
            .passed());
}

TEST_CASE("unmasked-tail: as if zero keys with zero values had been appended") {
  const fa::Problem problem = random({1, 2, 50, 100, 16});
  const Result broken = run(problem, kUnmaskedTail);
  CHECK_FALSE(check(problem, broken).passed());
  fa::Problem padded = problem;  // 100 keys fill two tiles of 64, with 28 zeros at the end
  padded.shape.kv = 128;
  padded.k.clear();
  padded.v.clear();
  for (int64_t head = 0; head < 2; ++head) {
    for (auto [from, to] : {std::pair{&problem.k, &padded.k}, std::pair{&problem.v, &padded.v}}) {
      to->insert(to->end(), from->begin() + head * 1600, from->begin() + (head + 1) * 1600);
      to->resize(to->size() + 28 * 16, 0.0f);
    }
  }
  CHECK(check(padded, broken).passed());
}

TEST_CASE("unmasked-tail: harmless when the length is a multiple of the tile, and under causal") {
  const fa::Problem exact = random({1, 1, 50, 128, 16});
  CHECK(check(exact, run(exact, kUnmaskedTail)).passed());
  const fa::Problem causal = random({1, 1, 50, 100, 16}, true);
  CHECK(check(causal, run(causal, kUnmaskedTail)).passed());
}

TEST_CASE("every break of the arithmetic fails at every input scale at which it is not rounding") {
  const struct {
    uint32_t flag;
    bool causal;
    std::vector<double> input_scales;
  } cases[] = {{kNoMax, false, {30.0}},           // below it no score exceeds 88.7
               {kNoRescale, false, {1.0, 30.0}},  // at 1e-3 all tile maxima are nearly equal
               {kTileRelativeMask, true, {1e-3, 1.0, 30.0}},
               {kStateResetPerBlock, true, {1e-3, 1.0, 30.0}},
               {kUnmaskedTail, false, {1e-3, 1.0, -30.0}}};  // 30, so a score of 0 has no weight
  for (const auto& one : cases) {  // clang 14 cannot capture a structured binding
    const uint32_t flag = one.flag;
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      for (const double input_scale : one.input_scales) {
        CAPTURE(flag);
        CAPTURE(input_scale);
        fa::Problem problem = fa::random_problem({1, 2, 170, 170, 32}, dtype, 3, input_scale);
        problem.causal = one.causal;
        CHECK(check(problem, run(problem, 0)).passed());
        const fa::CheckResult broken = check(problem, run(problem, flag));
        CHECK_FALSE(broken.passed());
        CHECK_FALSE(broken.inconclusive);
      }
    }
  }
}

TEST_CASE("a break mask without bits gives the intact result, bit for bit") {
  const fa::Problem problem = random({1, 2, 100, 130, 32}, true);
  const Result intact = run(problem, 0), unused = run(problem, 1u << 31);
  CHECK(intact.o == unused.o);
  CHECK(intact.lse == unused.lse);
}
