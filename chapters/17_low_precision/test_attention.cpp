#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "chapter.hpp"
#include "common/accuracy.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch17::KERNEL;
const int ALL_SCALES[] = {ch17::PER_HEAD, ch17::PER_BLOCK, ch17::PER_WARP, ch17::PER_THREAD};

TEST_CASE("agrees with float64 on Q and K in 8 bits: named shapes, three input scales") {
  agrees_on_named_shapes(KERNEL);
}

TEST_CASE("agrees on a large shape" * doctest::test_suite("large")) {
  agrees_on_a_large_shape(KERNEL);
}

TEST_CASE("agrees on random shapes") { agrees_on_random_shapes(KERNEL); }

TEST_CASE("returns a constant V") { returns_a_constant_v(KERNEL); }

TEST_CASE("gives the same bits under 100 schedules, without a hazard") {
  same_bits_under_every_schedule(KERNEL);
}

TEST_CASE("causal: ragged both ways, one query, more queries than keys") {
  agrees_under_causal_masks(KERNEL);
}

TEST_CASE("windows: each side, both, none of the keys, all of them") { agrees_in_windows(KERNEL); }

// K with a different mean in each channel, as in models, and single outliers.
Problem hard(const Shape& shape, int channel_mean, int outliers) {
  Problem problem = random_problem(shape, Dtype::bf16, 3);
  const int options[] = {ch17::PER_THREAD, channel_mean, outliers};
  ch17::prepare(problem, options);
  return problem;
}

// Returns the verdict of the program.
Verdict verdict(const Problem& problem, int scales, uint32_t breaks = 0) {
  const int options[] = {scales};
  Tensors tensors{problem, std::vector<float>(problem.shape.q_elements()),
                  std::vector<float>(problem.shape.rows())};
  const EmulatorRun run = forward_on_emulator(KERNEL, problem, tensors.o, tensors.lse,
                                              {.breaks = breaks, .options = {scales}});
  CHECK(run.report.hazards.empty());
  return check_rounding(tensors, ch17::computed(problem, options), 0);
}

TEST_CASE("heads of K and V that several heads of Q share; each way to share a scale") {
  for (const int64_t group : {1, 2, 3}) {
    for (const int scales : ALL_SCALES) {
      CAPTURE(scales);
      for (const int64_t dim : {64, 128}) {
        Problem problem = random_problem({2, 6, 130, 140, dim}, Dtype::bf16, 4, 1, group);
        problem.causal = group == 2;
        const Verdict result = verdict(problem, scales);
        CHECK_MESSAGE(result.passed, result.text);
      }
    }
  }
}

TEST_CASE("a mean of K and outliers: finer scales lose less, and all lose what is expected") {
  const Shape shape{1, 2, 256, 700, 128};
  for (const Problem& problem : {hard(shape, 8, 0), hard(shape, 0, 10)}) {
    double before = INFINITY;
    for (const int scales : ALL_SCALES) {
      const Verdict result = verdict(problem, scales);
      CHECK_MESSAGE(result.passed, result.text);
      const double rmse = (*result.report)["rmse"];
      CHECK(rmse < before * 1.02);
      before = rmse;
    }
  }
}

TEST_CASE("an even number of steps: integers are multiplied exactly") {
  // Every number is a multiple of its scale, 1. Therefore S is exact, and so is the answer except
  // for P and O.
  Problem problem = random_problem({1, 1, 64, 96, 128}, Dtype::bf16, 7);
  std::mt19937 random(8);
  for (float& value : problem.q) value = static_cast<float>(static_cast<int>(random() % 255) - 127);
  for (float& value : problem.k) value = static_cast<float>(static_cast<int>(random() % 255) - 127);
  for (int64_t d = 0; d < 128; ++d) {  // a mean of 0, and 127 in each group
    for (int64_t key = 0; key < 96; key += 2)
      problem.k[(key + 1) * 128 + d] = -problem.k[key * 128 + d];
  }
  for (int64_t row = 0; row < 96; ++row) problem.k[row * 128] = row % 2 ? -127 : 127;
  for (int64_t row = 0; row < 64; ++row) problem.q[row * 128] = 127;
  problem.scale = 1e-3 / std::sqrt(128.0);
  const int options[] = {ch17::PER_THREAD};
  const Problem rounded = ch17::computed(problem, options);
  CHECK(rounded.q == problem.q);
  CHECK(rounded.k == problem.k);
  CHECK(verdict(problem, ch17::PER_THREAD).passed);
}

TEST_CASE("a NaN or an Inf in Q or K does not vanish; zeros are zeros") {
  for (const float bad : {std::nanf(""), INFINITY}) {
    Problem problem = random_problem({1, 1, 40, 60, 64}, Dtype::bf16, 9);
    problem.q[5 * 64 + 3] = bad;
    const Answer got = answer(KERNEL, problem);
    for (int64_t d = 0; d < 64; ++d) CHECK(std::isnan(got.o[static_cast<size_t>(5 * 64 + d)]));
    CHECK(std::isfinite(got.o[0]));  // another group
    problem = random_problem({1, 1, 40, 60, 64}, Dtype::bf16, 9);
    problem.k[7] = bad;
    CHECK(std::isnan(answer(KERNEL, problem).o[0]));
  }
  Problem zeros = random_problem({1, 1, 40, 60, 64}, Dtype::bf16, 9);
  std::fill(zeros.q.begin(), zeros.q.end(), 0.0f);
  check_agrees(KERNEL, zeros);
  std::fill(zeros.k.begin(), zeros.k.end(), 0.0f);
  check_agrees(KERNEL, zeros);
}

TEST_CASE("tiny numbers: no scale is Inf, no product of two is 0") {
  for (const float size : {1e-35f, 1e-37f, 1e-38f}) {
    for (const int scales : ALL_SCALES) {
      Problem problem = random_problem({1, 1, 70, 130, 64}, Dtype::bf16, 9);
      for (std::vector<float>* values : {&problem.q, &problem.k})
        for (float& value : *values) value = round_to(Dtype::bf16, value * size);
      const Verdict result = verdict(problem, scales);
      CHECK_MESSAGE(result.passed, result.text);
    }
  }
  // One operand is tiny and the other huge, so their scores are ordinary.
  Problem problem = random_problem({1, 1, 70, 130, 64}, Dtype::bf16, 9);
  for (float& value : problem.q) value = round_to(Dtype::bf16, value * 1e-30f);
  for (float& value : problem.k) value = round_to(Dtype::bf16, value * 1e30f);
  const Verdict result = verdict(problem, ch17::PER_THREAD);
  CHECK_MESSAGE(result.passed, result.text);
}

TEST_CASE("Q K^T takes half of chapter 09's mma and fewer bytes; P V the same") {
  const simt::Counters now = count(KERNEL), before = count(ch09::KERNEL);
  // 4 warps x 2 rows of 16; 16 n-tiles of O, 32 steps of 16 keys: 11 tiles of 48 cover 528 keys.
  const int64_t pv = 4 * 2 * 16 * 33, qk = 4 * 2 * 66 * 4;
  CHECK(now.mma_instructions == pv + qk);
  CHECK(before.mma_instructions == 4 * 2 * 16 * 32 + 4 * 2 * 64 * 8);
}

TEST_CASE("head sizes other than 64 and 128, and what chapter 09 alone takes, are refused") {
  for (const int64_t dim : {32, 96, 256}) {
    const Problem problem = random_problem({1, 1, 4, 4, dim}, Dtype::bf16, 1);
    std::vector<float> o(problem.shape.q_elements());
    CHECK_THROWS_AS(forward_on_emulator(KERNEL, problem, o), InputError);
  }
  Problem capped = random_problem({1, 1, 4, 4, 64}, Dtype::bf16, 1);
  capped.softcap = 2;
  std::vector<float> o(capped.shape.q_elements());
  CHECK_THROWS_AS(forward_on_emulator(KERNEL, capped, o), InputError);
}

TEST_CASE("rounding that moves scores by more than 1 is called inconclusive, not passed") {
  const Verdict result =
      verdict(random_problem({1, 1, 64, 100, 128}, Dtype::bf16, 1, 300), ch17::PER_THREAD);
  CHECK(!result.passed);
  CHECK((*result.report)["inconclusive"]);
  CHECK((*result.report)["score_error"].get<double>() > 1);
}

// The breaks of chapter 08.
TEST_CASE("no-max overflows") { no_max_overflows(KERNEL); }
TEST_CASE("no-rescale, shuffle-mask-0x10 and swizzle-one-side: finite and wrong") {
  for (const KernelBreak flag : {NO_RESCALE, SHUFFLE_MASK_0X10, SWIZZLE_ONE_SIDE})
    is_finite_and_wrong(KERNEL, flag, {1, 1, 128, 512, 128});
}
TEST_CASE("unmasked-tail: finite and wrong, and less so than with K's mean: scores are around 0") {
  const Problem problem = random_problem({1, 1, 64, 100, 64}, Dtype::bf16, 5);
  CHECK(!verdict(problem, ch17::PER_THREAD, UNMASKED_TAIL).passed);
  const Problem sharp = random_problem({1, 1, 64, 100, 64}, Dtype::bf16, 5, -30);
  CHECK(verdict(sharp, ch17::PER_THREAD, UNMASKED_TAIL).passed);
}
TEST_CASE("broken synchronization is reported") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kOverwriteWhileRead);
  is_reported_as(KERNEL, WAIT_TOO_FEW, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, CONDITIONAL_COMMIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kBarrierDivergence);
}

// The breaks of this chapter.
double rmse(const Verdict& verdict) { return (*verdict.report)["rmse"]; }

TEST_CASE("no-smoothing: a mean of K costs most of the 8 bits") {
  const Problem problem = hard({1, 1, 128, 512, 128}, 8, 0);
  const Verdict intact = verdict(problem, ch17::PER_THREAD);
  CHECK(intact.passed);
  const Verdict broken = verdict(problem, ch17::PER_THREAD, NO_SMOOTHING);
  CHECK(!broken.passed);
  CHECK(rmse(broken) > 3 * rmse(intact));
}

TEST_CASE("one-scale: one outlier takes the bits of a whole head") {
  const Problem problem = hard({1, 1, 128, 512, 128}, 0, 20);
  const Verdict intact = verdict(problem, ch17::PER_THREAD);
  CHECK(intact.passed);
  const Verdict broken = verdict(problem, ch17::PER_THREAD, ONE_SCALE);
  CHECK(!broken.passed);
  CHECK(rmse(broken) > 2 * rmse(intact));
}

TEST_CASE("lse-uncorrected: O is the same, LSE lacks scale q . mean of K") {
  const Problem problem = random_problem({1, 1, 128, 512, 128}, Dtype::bf16, 1);
  const Answer intact = answer(KERNEL, problem);
  const Answer broken = answer(KERNEL, problem, {.breaks = LSE_UNCORRECTED});
  CHECK(broken.o == intact.o);
  CHECK(!verdict(problem, ch17::PER_THREAD, LSE_UNCORRECTED).passed);
  const Problem rounded = ch17::computed(problem, {});
  for (size_t i = 0; i < intact.lse.size(); ++i) {
    CHECK(std::abs(intact.lse[i] - broken.lse[i] - rounded.lse_offset[i]) <= 1e-4);
  }
}

TEST_CASE("late-scale: finite and wrong") {
  const Verdict broken =
      verdict(random_problem({1, 1, 128, 512, 128}, Dtype::bf16, 1), ch17::PER_THREAD, LATE_SCALE);
  CHECK(!broken.passed);
  CHECK((*broken.report)["nonfinite"] == 0);
}

}  // namespace
