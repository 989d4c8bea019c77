#pragma once
// Shared by the tests of chapters 16 and 21, whose kernels have the options --consumers and
// --blocks and use the maximum of an earlier tile.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "common/check.hpp"
#include "common/half.hpp"
#include "common/kernels/test/kernel_test.hpp"

namespace fa::test {

// Consumers and blocks of each kernel that is compiled.
inline const std::vector<int> COMPILED[] = {{2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}};

inline void check_right(const Kernel& kernel, const Problem& problem,
                        const std::vector<int>& options) {
  INFO("consumers ", options[0], ", blocks ", options[1]);
  const Answer got = answer(kernel, problem, {.options = options});
  CHECK_MESSAGE(got.report.hazards.empty(),
                (got.report.hazards.empty() ? "" : got.report.hazards[0].text));
  const CheckResult result = check_output(problem, got.o, got.lse);
  CHECK_MESSAGE(result.passed(), describe(result, problem.shape));
}

inline float round_bf16(double value) { return to_float(to_bf16(static_cast<float>(value))); }

// Each key is larger than the previous one, by `step` in the scores' exponent of 2, or they jump
// once.
inline Problem rising(const Shape& shape, double step, bool at_once = false) {
  Problem problem = random_problem(shape, Dtype::bf16, 6);
  for (float& q : problem.q) q = std::abs(q);
  for (int64_t row = 0; row < shape.batch * shape.heads * shape.kv; ++row) {
    const int64_t key = row % shape.kv;
    const double exponent = at_once ? (key >= shape.kv / 2 ? step : 0) : step * double(key);
    for (int64_t d = 0; d < shape.dim; ++d) {
      float& k = problem.k[row * shape.dim + d];
      k = round_bf16(0.1 * k + exponent / shape.dim * 8);
    }
  }
  return problem;
}

inline void rising_maxima_are_right(const Kernel& kernel) {
  for (const Shape& shape : {Shape{1, 2, 200, 700, 64}, Shape{1, 1, 70, 700, 128}})
    for (const auto& options : COMPILED)
      for (const double step : {0.05, 0.5, 2.0}) check_right(kernel, rising(shape, step), options);
  for (const auto& options : COMPILED) {
    check_right(kernel, rising({1, 1, 130, 900, 64}, 300, true), options);
    check_right(kernel, rising({1, 1, 130, 900, 128}, -300, true), options);
  }
}

inline void several_tiles_give_the_same_bits(const Kernel& kernel) {
  Problem problem = random_problem({2, 3, 500, 300, 64}, Dtype::bf16, 8);
  for (const bool causal : {false, true}) {
    problem.causal = causal;
    for (const int consumers : {2, 3}) {
      const Answer one = answer(kernel, problem, {.options = {consumers, 1}});
      CHECK(one.report.hazards.empty());
      for (const int blocks : {2, 5, 100})
        CHECK(answer(kernel, problem, {.options = {consumers, blocks}}).o == one.o);
    }
  }
}

inline void a_nan_harms_its_row_alone(const Kernel& kernel) {
  Problem problem = random_problem({1, 1, 70, 600, 64}, Dtype::bf16, 9);
  const Answer clean = answer(kernel, problem);
  problem.q[33 * 64 + 5] = std::nanf("");
  for (const auto& options : COMPILED) {
    const Answer got = answer(kernel, problem, {.options = options});
    CHECK(got.report.hazards.empty());
    for (int64_t i = 0; i < problem.shape.q_elements(); ++i) {
      CHECK(std::isnan(got.o[i]) == (i / 64 == 33));
      if (i / 64 != 33) CHECK(std::abs(got.o[i] - clean.o[i]) <= 0.02f);
    }
  }
}

// Weights of nearly 2^50 times 1e30 overflow fp32, but weights of up to 2^8 do not.
inline Problem overflowing() {
  Problem problem = rising({1, 1, 130, 700, 64}, 30, true);
  for (float& v : problem.v) v = round_bf16(v * 1e30);
  return problem;
}

}  // namespace fa::test
