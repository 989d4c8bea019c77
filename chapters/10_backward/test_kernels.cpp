// The backward pass's kernels on the emulator: three designs against float64.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "chapter.hpp"
#include "common/backward.hpp"
#include "common/kernels/runner.hpp"
#include "common/reference.hpp"

using namespace fa;

namespace {

constexpr int TWO_KERNELS = 1, ONE_KERNEL = 2, TWO_ROLES = 3;
constexpr int DESIGNS[] = {TWO_KERNELS, ONE_KERNEL, TWO_ROLES};

struct Case {
  Shape shape;
  bool causal = false;
  int64_t group = 1;
  double input_scale = 1;
  Dtype dtype = Dtype::bf16;
};

Problem problem_of(const Case& c) {
  Problem problem = random_problem(c.shape, c.dtype, 1, c.input_scale, c.group);
  problem.causal = c.causal;
  problem.more.push_back(random_values(like_q(problem), c.dtype, 1, 0));
  return problem;
}

struct Gradients {
  std::vector<float> dq, dk, dv;
  simt::Report report;
};

// O, as rounded, and LSE are float64's.
Gradients differentiate(const Problem& problem, int design, uint32_t breaks = 0,
                        const simt::Config& config = {}) {
  const Shape& s = problem.shape;
  std::vector<float> o(s.q_elements()), lse(s.rows());
  std::vector<double> row(s.dim);
  for (int64_t i = 0; i < s.rows(); ++i) {
    lse[i] = static_cast<float>(reference_row(problem, i / s.q, i % s.q, row).lse);
    for (int64_t d = 0; d < s.dim; ++d)
      o[i * s.dim + d] = round_to(problem.dtype, static_cast<float>(row[d]));
  }
  Gradients result{std::vector<float>(s.q_elements()),
                   std::vector<float>(problem.kv_elements()),
                   std::vector<float>(problem.kv_elements()),
                   {}};
  result.report = backward_on_emulator(ch10::CHAPTER, problem,
                                       {o, lse, result.dq, result.dk, result.dv},
                                       {breaks, {design}}, config)
                      .report;
  return result;
}

GradientCheck check(const Problem& problem, const Gradients& got) {
  return check_gradients(problem, problem.more[0], got.dq, got.dk, got.dv);
}

void agrees(const Case& c) {
  const Problem problem = problem_of(c);
  for (const int design : DESIGNS) {
    CAPTURE(to_string(c.shape));
    CAPTURE(c.causal);
    CAPTURE(design);
    const Gradients got = differentiate(problem, design);
    const GradientCheck result = check(problem, got);
    CHECK_MESSAGE(result.passed(), describe(result, problem));
    CHECK(got.report.hazards.empty());
  }
}

}  // namespace

TEST_CASE("three designs agree with float64, at any length") {
  for (const int64_t dim : {64, 128}) {
    agrees({{1, 1, 64, 128, dim}});
    agrees({{1, 2, 130, 200, dim}});
    agrees({{2, 5, 1, 129, dim}});
    agrees({{1, 1, 129, 1, dim}});
    agrees({{1, 1, 300, 260, dim}, false, 1, 5});
  }
  agrees({{1, 1, 70, 150, 40}});
  agrees({{1, 1, 70, 150, 96}});
  agrees({{1, 2, 130, 200, 64}, false, 1, 1, Dtype::f16});
}

TEST_CASE("under a causal mask, also where rows see no key") {
  for (const int64_t dim : {64, 128}) {
    agrees({{1, 2, 200, 200, dim}, true});
    agrees({{1, 1, 77, 300, dim}, true, 1, 5});
    agrees({{1, 1, 300, 77, dim}, true});
  }
}

TEST_CASE("heads of K and V that several heads share get the sum of their gradients") {
  agrees({{1, 4, 130, 130, 64}, true, 2});
  agrees({{2, 6, 70, 140, 128}, false, 3});
}

TEST_CASE("zeros of K's tail times the Inf of a score that is very small") {
  const Problem problem = problem_of({{1, 1, 64, 100, 64}});
  Problem low = problem;  // scores of -100 and less: exp(0 - LSE) overflows
  for (float& value : low.q) value = -4;
  for (float& value : low.k) value = 4;
  for (const int design : DESIGNS) {
    CHECK(check(low, differentiate(low, design)).agrees());
    const Gradients broken = differentiate(low, design, UNMASKED_BACKWARD);
    CHECK(check(low, broken).dq.values.nonfinite > 0);
  }
}

TEST_CASE("each break is wrong as on the CPU") {
  const Problem problem = problem_of({{1, 1, 200, 130, 64}, true});  // 70 rows see no key
  for (const int design : DESIGNS) {
    const auto broken = [&](uint32_t bit) {
      return check(problem, differentiate(problem, design, bit));
    };
    const GradientCheck no_d = broken(NO_D);
    CHECK(!no_d.dq.agrees());
    CHECK(!no_d.dk.agrees());
    CHECK(no_d.dv.agrees());
    const GradientCheck no_scale = broken(NO_SCALE_IN_DK);
    CHECK(no_scale.dq.agrees());
    CHECK(!no_scale.dk.agrees());
    CHECK(no_scale.dv.agrees());
    CHECK(broken(LSE_OF_EMPTY_ROW).dq.values.nonfinite > 0);
    CHECK(broken(UNMASKED_BACKWARD).dv.values.mismatches > 0);
  }
}

TEST_CASE("dK and dV have the same bits under every schedule; dQ only if nobody else adds to it") {
  const Problem problem = problem_of({{1, 2, 150, 300, 64}});
  for (const int design : DESIGNS) {
    const Gradients first = differentiate(problem, design);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const Gradients other = differentiate(problem, design, 0, {.schedule_seed = seed});
      CHECK(other.report.hazards.empty());
      CHECK(other.dk == first.dk);
      CHECK(other.dv == first.dv);
      if (design == TWO_KERNELS) CHECK(other.dq == first.dq);
      CHECK(check(problem, other).passed());
    }
  }
}

TEST_CASE("every barrier and wait of the three designs is needed") {
  const Problem problem = problem_of({{1, 1, 300, 200, 64}});
  for (const int design : DESIGNS) {
    const Gradients intact = differentiate(problem, design);
    REQUIRE(!intact.report.synchronizations.empty());
    for (const simt::Synchronization& one : intact.report.synchronizations) {
      const std::string site = std::string(one.where.file) + ":" + std::to_string(one.where.line);
      simt::Config config;
      config.leave_out = {{site}};
      INFO(one.instruction, " at ", site, " left out of design ", design);
      const Gradients without = differentiate(problem, design, 0, config);
      CHECK(!without.report.hazards.empty());
    }
  }
}
