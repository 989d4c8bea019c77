#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "chapter.hpp"
#include "common/accuracy.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/fp8.hpp"
#include "common/kernels/test/kernel_test.hpp"
#include "common/simt/simt.hpp"
#include "order.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch23::KERNEL;

Problem hard(const Shape& shape, int channel_mean, int outliers, uint64_t seed = 3) {
  Problem problem = random_problem(shape, Dtype::bf16, seed);
  const int options[] = {0, channel_mean, outliers};
  ch23::prepare(problem, options);
  return problem;
}

// Returns the verdict of the program.
Verdict verdict(const Problem& problem, uint32_t breaks = 0) {
  Tensors tensors{problem, std::vector<float>(problem.shape.q_elements()),
                  std::vector<float>(problem.shape.rows())};
  const EmulatorRun run =
      forward_on_emulator(KERNEL, problem, tensors.o, tensors.lse, {.breaks = breaks});
  CHECK_MESSAGE(run.report.hazards.empty(),
                (run.report.hazards.empty() ? "" : run.report.hazards[0].text));
  return check_rounding(tensors, ch23::computed(problem, {}), 0);
}
void passes(const Problem& problem) {
  CAPTURE(to_string(problem.shape));
  const Verdict result = verdict(problem);
  CHECK_MESSAGE(result.passed, result.text);
}
// No error is found, but with few keys the 3 bits of the weights make the bound too wide to prove
// it.
Answer is_not_wrong(const Problem& problem) {
  CAPTURE(to_string(problem.shape));
  Answer got = answer(KERNEL, problem);
  const CheckResult result = check_output(ch23::computed(problem, {}), got.o, got.lse);
  CHECK_MESSAGE(result.agrees(), describe(result, problem.shape));
  return got;
}
double rmse(const Verdict& result) { return (*result.report)["rmse"]; }

TEST_CASE("agrees with float64 on what is left in 8 bits: tiles, ragged ends, both head sizes") {
  const Shape shapes[] = {{1, 1, 64, 96, 128},   {2, 3, 65, 127, 64},  {1, 2, 257, 513, 128},
                          {1, 1, 193, 1000, 64}, {1, 1, 1, 1000, 128}, {1, 1, 128, 2048, 128}};
  for (const Shape& shape : shapes) passes(random_problem(shape, Dtype::bf16, 1));
}

TEST_CASE("any length: one key, one query, fewer keys than a tile") {
  const Shape shapes[] = {{1, 1, 1, 1, 64},  {1, 1, 100, 1, 128}, {1, 1, 1, 97, 64},
                          {1, 2, 3, 2, 128}, {1, 1, 33, 17, 64},  {1, 1, 64, 95, 128}};
  for (const Shape& shape : shapes)
    for (const double input_scale : {1.0, 30.0, 1e-3})
      is_not_wrong(random_problem(shape, Dtype::bf16, 1, input_scale));
}

// The emulator's card has 132 SMs, so most blocks take two or three tiles of queries.
TEST_CASE("blocks that take several tiles, with odd and even numbers of tiles of keys") {
  for (const int64_t keys : {130, 300}) {
    Problem problem = random_problem({1, 150, 130, keys, 64}, Dtype::bf16, 2, 1, 50);
    problem.causal = keys == 300;
    const Answer got = is_not_wrong(problem);
    CHECK(got.report.hazards.empty());
    // A claim after each tile, and one when the last sets the counter to 0 again.
    CHECK(got.report.counters.global_atomics == 2 * 150 + 1);
  }
}

TEST_CASE("causal, windows, heads that share keys") {
  for (const Shape& shape : {Shape{1, 2, 300, 300, 64}, Shape{1, 1, 100, 400, 128}})
    is_not_wrong(causal(shape));
  is_not_wrong(causal({1, 1, 400, 100, 64}));  // the first rows are fully masked
  is_not_wrong(window({1, 1, 300, 500, 64}, 100, 50));
  is_not_wrong(window({1, 1, 300, 500, 64}, -1, 7));
  is_not_wrong(window({1, 1, 300, 700, 128}, 10, -1));
  for (const int64_t group : {2, 3}) {
    Problem problem = random_problem({2, 6, 150, 200, 64}, Dtype::bf16, 4, 1, group);
    problem.causal = group == 2;
    is_not_wrong(problem);
  }
}

TEST_CASE("a row that sees nothing gives 0 and -inf, though V has a NaN") {
  Problem problem = causal({1, 1, 200, 70, 64});  // the first 130 rows are fully masked
  for (const bool bad : {false, true}) {
    if (bad) problem.v[0] = std::nanf("");
    const Answer got = answer(KERNEL, problem);
    for (int64_t row = 0; row < 200; ++row) {
      CHECK((got.lse[row] == -INFINITY) == (row < 130));
      if (row < 130) CHECK(got.o[row * 64] == 0);
      if (row >= 130) CHECK(std::isnan(got.o[row * 64]) == bad);
    }
  }
}

TEST_CASE("a mean of K, a mean of V, outliers") {
  const Shape shape{1, 2, 128, 700, 128};
  passes(hard(shape, 8, 0));
  is_not_wrong(hard(shape, 0, 10));  // rows in which one key dominates
  Problem problem = random_problem(shape, Dtype::bf16, 5);
  for (float& value : problem.v) value = round_to(Dtype::bf16, value + 10);
  passes(problem);
}

// One key of each tile scores more than all earlier ones: 2^0, 2^step, 2^(2 step) …
Problem rising(double step, const Shape& shape = {1, 1, 64, 800, 64}) {
  Problem problem = random_problem(shape, Dtype::bf16, 6);
  for (int64_t i = 0; i < shape.q; ++i)
    for (int64_t d = 0; d < shape.dim; ++d) problem.q[i * shape.dim + d] = d == 0 ? 1.0f : 0.0f;
  problem.scale = 1;
  for (int64_t j = 0; j < shape.kv; ++j)
    for (int64_t d = 0; d < shape.dim; ++d)
      problem.k[j * shape.dim + d] =
          d == 0 ? float(j / 96 * step * 0.6931 - (j % 96 ? 3 : 0)) : 0.0f;
  for (float& value : problem.k) value = round_to(Dtype::bf16, value);
  return problem;
}

TEST_CASE("rising scores: within the current range, beyond it, beyond the allowed guess") {
  for (const double step : {1.0, 3.0, 5.0, 12.0, 40.0, -5.0, -40.0}) {
    CAPTURE(step);
    is_not_wrong(rising(step));
  }
}

TEST_CASE("sharp softmax: scores in the hundreds are finite, and right for the rounded problem") {
  for (const double input_scale : {30.0, 300.0, -300.0, 3000.0}) {
    CAPTURE(input_scale);
    const Problem problem = random_problem({1, 1, 70, 500, 64}, Dtype::bf16, 7, input_scale);
    const Answer got = answer(KERNEL, problem);
    for (const float value : got.o) CHECK(std::isfinite(value));
    is_not_wrong(problem);
  }
}

TEST_CASE("keys in one direction, whose errors add up: inconclusive, because the kernel is right") {
  Problem problem = random_problem({1, 1, 64, 256, 64}, Dtype::bf16, 1);
  make_ramp(problem, 2);
  const Verdict result = verdict(problem);
  CHECK(!result.passed);
  CHECK((*result.report)["inconclusive"]);
  CHECK_MESSAGE(result.text.starts_with("INCONCLUSIVE: "), result.text);
}

TEST_CASE("all scores alike: sums of a tile are as large as they get") {
  Problem problem = random_problem({1, 1, 64, 1000, 128}, Dtype::bf16, 8);
  std::fill(problem.q.begin(), problem.q.end(), 0.0f);
  passes(problem);
}

TEST_CASE("a NaN or an Inf does not vanish; zeros are zeros") {
  for (const float bad : {std::nanf(""), INFINITY}) {
    for (std::vector<float> Problem::*input : {&Problem::q, &Problem::k, &Problem::v}) {
      Problem problem = random_problem({1, 1, 130, 200, 64}, Dtype::bf16, 9);
      (problem.*input)[5 * 64 + 3] = bad;
      const Answer got = answer(KERNEL, problem);
      CHECK(std::isnan(got.o[5 * 64 + 3]));
      if (input == &Problem::q) CHECK(std::isfinite(got.o[100 * 64]));  // another warpgroup
      if (input == &Problem::v) CHECK(std::isfinite(got.o[4]));         // another channel
    }
  }
  Problem zeros = random_problem({1, 1, 40, 200, 64}, Dtype::bf16, 9);
  for (std::vector<float> Problem::*input : {&Problem::q, &Problem::k, &Problem::v}) {
    std::fill((zeros.*input).begin(), (zeros.*input).end(), 0.0f);
    is_not_wrong(zeros);
  }
}

TEST_CASE("tiny and huge numbers") {
  // In fp32 the squares of the first are 0, which says nothing about the size of the scores.
  Problem far = rising(140.0);
  for (float& value : far.q) value = round_to(Dtype::bf16, value * 0x1p-80f);
  far.scale = 0x1p80;
  is_not_wrong(far);
  for (const auto& [of_q, of_k] : {std::pair{1e-30f, 1e30f}, {1e-35f, 1e-35f}, {1e-38f, 1.0f}}) {
    Problem problem = random_problem({1, 1, 70, 230, 64}, Dtype::bf16, 9);
    for (float& value : problem.q) value = round_to(Dtype::bf16, value * of_q);
    for (float& value : problem.k) value = round_to(Dtype::bf16, value * of_k);
    is_not_wrong(problem);
  }
}

TEST_CASE("V's keys: each slot has one, and lanes keep theirs") {
  int seen[16] = {};
  for (int slot = 0; slot < 16; ++slot) {
    const int key = emulator::ch23::key_of_slot(slot);
    ++seen[key];
    CHECK(key % 8 / 2 == slot / 4);  // the lane of the quad that has it in S and needs it in P
    CHECK(emulator::ch23::key_of_slot(slot + 32) == key + 32);
  }
  for (const int times : seen) CHECK(times == 1);
}

TEST_CASE("the same bits under every schedule, without a hazard") {
  same_bits_under_every_schedule(KERNEL);
}

TEST_CASE("wgmma takes half of chapter 16's instructions for a product") {
  const simt::Counters now = count(KERNEL);
  // 4 tiles of 128 keys, each with 4 for S and 4 for O, in 2 warpgroups of 4 warps.
  CHECK(now.wgmma_instructions == 4 * 8 * (4 + 4));
}

TEST_CASE("what it does not take is refused") {
  std::vector<float> o;
  for (const int64_t dim : {32, 96, 256}) {
    const Problem problem = random_problem({1, 1, 4, 4, dim}, Dtype::bf16, 1);
    o.resize(problem.shape.q_elements());
    CHECK_THROWS_AS(forward_on_emulator(KERNEL, problem, o), InputError);
  }
  Problem capped = random_problem({1, 1, 4, 4, 64}, Dtype::bf16, 1);
  capped.softcap = 2;
  CHECK_THROWS_AS(forward_on_emulator(KERNEL, capped, o), InputError);
}

// Tests of the breaks.
TEST_CASE("no-rescale, shuffle-mask-0x10, swizzle-one-side, keys-in-order: finite and wrong") {
  Problem problem = rising(5.0);
  for (const uint32_t flag : {uint32_t{NO_RESCALE}, uint32_t{SHUFFLE_MASK_0X10}}) {
    const Answer got = answer(KERNEL, problem, {.breaks = flag});
    CHECK(!check_output(ch23::computed(problem, {}), got.o, got.lse).agrees());
  }
  problem = random_problem({1, 1, 128, 512, 128}, Dtype::bf16, 1);
  for (const uint32_t flag : {uint32_t{SWIZZLE_ONE_SIDE}, uint32_t{KEYS_IN_ORDER}}) {
    const Verdict broken = verdict(problem, flag);
    CHECK(!broken.passed);
    CHECK((*broken.report)["nonfinite"] == 0);
  }
}
TEST_CASE("missing-wait is reported") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
}
TEST_CASE("no-smoothing: a mean of K costs most of the bits") {
  const Problem problem = hard({1, 1, 128, 512, 128}, 8, 0);
  const Verdict intact = verdict(problem), broken = verdict(problem, FP8_NO_SMOOTHING);
  CHECK(intact.passed);
  CHECK(!broken.passed);
  CHECK(rmse(broken) > 3 * rmse(intact));
}
TEST_CASE("lse-uncorrected: O is the same, LSE is not") {
  const Problem problem = random_problem({1, 1, 128, 512, 128}, Dtype::bf16, 1);
  const Answer intact = answer(KERNEL, problem);
  const Answer broken = answer(KERNEL, problem, {.breaks = FP8_LSE_UNCORRECTED});
  CHECK(broken.o == intact.o);
  CHECK(!verdict(problem, FP8_LSE_UNCORRECTED).passed);
}
// One key takes nearly all the weight, and its value is the mean, so the small weights decide the
// rest.
Problem sink() {
  Problem problem = random_problem({1, 1, 64, 1536, 64}, Dtype::bf16, 11);
  for (int64_t i = 0; i < 64; ++i) problem.q[i * 64] = 8;
  for (int64_t j = 0; j < 1536; ++j) problem.k[j * 64] = j == 0 ? 8.0f : 0.0f;
  for (int64_t d = 0; d < 64; ++d) problem.v[d] = 0.5f;
  return problem;
}
TEST_CASE("p-unscaled: small weights become 0") {
  const Verdict intact = verdict(sink()), broken = verdict(sink(), P_UNSCALED);
  CHECK(rmse(broken) > 3 * rmse(intact));
}
TEST_CASE("one-level: the longer the sum, the less of it arrives") {
  // The mean of V over all keys differs from that over the keys that these queries see.
  Problem problem = random_problem({1, 1, 16, 16384, 64}, Dtype::bf16, 12);
  for (int64_t j = 0; j < 16384; ++j)
    for (int64_t d = 0; d < 64; ++d)
      problem.v[j * 64 + d] = round_to(Dtype::bf16, problem.v[j * 64 + d] + (j < 8192 ? 4 : -4));
  for (int64_t i = 0; i < 16; ++i) problem.q[i * 64] = 16;
  for (int64_t j = 0; j < 16384; ++j) problem.k[j * 64] = j < 8192 ? 2.0f : -2.0f;
  const Verdict intact = verdict(problem), broken = verdict(problem, ONE_LEVEL);
  CHECK_MESSAGE(intact.passed, intact.text);
  CHECK(!broken.passed);
  CHECK(rmse(broken) > 5 * rmse(intact));
}
TEST_CASE("no-sum-check: weights above 448 are 448") {
  Problem problem = random_problem({1, 1, 64, 512, 64}, Dtype::bf16, 13);
  problem.scale = 1;
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t d = 0; d < 64; ++d) problem.q[i * 64 + d] = d == 0 ? 1.0f : 0.0f;
  for (int64_t j = 0; j < 512; ++j)
    for (int64_t d = 0; d < 64; ++d)
      problem.k[j * 64 + d] = d == 0 ? round_to(Dtype::bf16, 0.03f * float(j)) : 0.0f;
  is_not_wrong(problem);
  const Answer got = answer(KERNEL, problem, {.breaks = FP8_NO_SUM_CHECK});
  CHECK(!check_output(ch23::computed(problem, {}), got.o, got.lse).agrees());
  for (const float value : got.o) CHECK(std::isfinite(value));
}
TEST_CASE("no-bound: a score far above the current maximum is Inf") {
  const Problem problem = rising(140.0);
  const Answer got = answer(KERNEL, problem, {.breaks = NO_BOUND});
  CHECK(std::any_of(got.o.begin(), got.o.end(), [](float x) { return !std::isfinite(x); }));
  is_not_wrong(problem);
}

}  // namespace
