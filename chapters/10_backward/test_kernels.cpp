// Compares the kernels of the backward pass on the emulator, in three designs, with float64.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "chapter.hpp"
#include "chapters/10_backward/test_sinks.hpp"
#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/kernels/runner.hpp"
#include "common/reference.hpp"

using namespace fa;

namespace {

using ch10::ONE_KERNEL, ch10::TWO_KERNELS, ch10::TWO_ROLES;
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
  problem.d_o = random_values(like_q(problem), c.dtype, 1, 0);
  return problem;
}

struct Gradients {
  std::vector<float> dq, dk, dv, d_sinks;
  simt::Report report;
};

// Computes the gradients from the float64 reference's O (rounded) and LSE.
Gradients differentiate(const Problem& problem, int design, uint32_t breaks = 0,
                        const simt::Config& config = {}, bool deterministic = false,
                        bool by_length = false) {
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
                   std::vector<float>(problem.sinks.size()),
                   {}};
  result.report = backward_on_emulator(ch10::KERNEL, problem,
                                       {o, lse, result.dq, result.dk, result.dv, result.d_sinks},
                                       {breaks, {design, deterministic}, by_length}, config)
                      .report;
  return result;
}

GradientCheck check(const Problem& problem, const Gradients& got) {
  return check_gradients(problem, problem.d_o, got.dq, got.dk, got.dv);
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

TEST_CASE("sinks: all gradients, and their own as a difference of two losses says") {
  for (const Case& c : {Case{{2, 4, 130, 130, 64}, true, 2}, Case{{1, 2, 300, 77, 128}, true}}) {
    Problem problem = problem_of(c);
    problem.sinks = random_sinks(problem, 1);
    problem.sinks[1] = -INFINITY;
    for (const int design : DESIGNS) {
      CAPTURE(design);
      const Gradients got = differentiate(problem, design);
      const GradientCheck result = check(problem, got);
      CHECK_MESSAGE(result.passed(), describe(result, problem));
      CHECK(got.report.hazards.empty());
      CHECK(got.d_sinks[1] == 0);
      const double expected =
          fa::test::by_difference(problem, 0);  // O is rounded, so D is off by 1 %
      CHECK(std::abs(got.d_sinks[0] - expected) <= 0.01 * std::abs(expected));
    }
  }
}

TEST_CASE("zeros of K's tail times the Inf of a score that is very small") {
  const Problem problem = problem_of({{1, 1, 64, 100, 64}});
  Problem low = problem;  // scores of -100 and less, so exp(0 - LSE) overflows
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

TEST_CASE("dK and dV have the same bits under every schedule, dQ only if one block adds to it") {
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
      simt::Config config{.leave_out = {{site}}};
      INFO(one.instruction, " at ", site, " left out of design ", design);
      const Gradients without = differentiate(problem, design, 0, config);
      CHECK(!without.report.hazards.empty());
    }
  }
}

TEST_CASE("products, additions and wavefronts are what one counts by hand") {
  // Wavefronts of ldmatrix per mma, by the tile of a warp: 32 (rows + columns) / (rows * columns),
  // without the term of an operand that is in registers. In the order S, dP, dV, dK, dQ.
  struct Expected {
    int design;
    int64_t dim, products;
    double wavefronts;
  };
  for (const Expected& e :
       {Expected{ONE_KERNEL, 128, 5, 2.5 + 2.5 + 2 + 2 + 2},
        Expected{TWO_ROLES, 128, 5, 1.5 + 1.5 + 1 + 1 + 1.5},
        Expected{ONE_KERNEL, 64, 5, 1.5 + 1.5 + 1 + 1 + 2}, Expected{TWO_KERNELS, 128, 7, 0}}) {
    CAPTURE(e.design);
    CAPTURE(e.dim);
    const Problem problem = problem_of({{1, 2, 256, 384, e.dim}});
    const simt::Counters counters = differentiate(problem, e.design).report.counters;
    const int64_t pairs = 2 * (256 / 64) * (384 / 128), of_a_product = 64 * 128 * e.dim / 2048;
    CHECK(counters.mma_instructions == e.products * pairs * of_a_product);
    CHECK(counters.global_atomics == (e.products == 7 ? 0 : pairs * 64 * e.dim / 32));
    if (e.wavefronts > 0)  // four per ldmatrix, one for each 8x8 tile
      CHECK(4.0 * static_cast<double>(counters.ldmatrix_instructions) ==
            e.wavefronts / 5 * static_cast<double>(counters.mma_instructions));
    CHECK(counters.shared_load_wavefronts == counters.shared_load_wavefronts_ideal);
    CHECK(counters.shared_store_wavefronts == counters.shared_store_wavefronts_ideal);
  }
}

TEST_CASE("deterministic: the same bits under every schedule, and only by waiting for one's turn") {
  for (const bool causal : {false, true}) {
    const Problem problem = problem_of({{1, 2, 330, 520, 64}, causal, 2});
    for (const int design : {ONE_KERNEL, TWO_ROLES}) {
      CAPTURE(design);
      CAPTURE(causal);
      const Gradients first = differentiate(problem, design, 0, {}, true);
      CHECK(check(problem, first).passed());
      bool differs = false;
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const simt::Config config{.schedule_seed = seed};
        const Gradients other = differentiate(problem, design, 0, config, true);
        CHECK(other.report.hazards.empty());
        CHECK(other.dq == first.dq);
        const Gradients unordered = differentiate(problem, design, UNORDERED_DQ, config, true);
        CHECK(check(problem, unordered).passed());
        differs |= unordered.dq != first.dq;
      }
      CHECK(differs);
    }
  }
}

TEST_CASE("the sum of dQ becomes 0 in a kernel of its own, or blocks race") {
  const Problem problem = problem_of({{1, 1, 200, 520, 64}});
  for (const int design : {ONE_KERNEL, TWO_ROLES}) {
    const Gradients broken = differentiate(problem, design, LATE_ZERO);
    REQUIRE(broken.report.hazards.size() == 1);
    CHECK(broken.report.hazards[0].kind == simt::HazardKind::kGlobalRace);
    CHECK(broken.report.hazards[0].text.find("workspace[") != std::string::npos);
  }
}

TEST_CASE("tensors may be stored by length, with heads repeated, or of one row") {
  const Problem problem = problem_of({{2, 4, 100, 150, 64}, true, 2});
  const Gradients plain = differentiate(problem, ONE_KERNEL, 0, {}, true);
  const Gradients by_length = differentiate(problem, ONE_KERNEL, 0, {}, true, true);
  CHECK(by_length.dq == plain.dq);
  CHECK(by_length.dk == plain.dk);
  CHECK(by_length.dv == plain.dv);
}

TEST_CASE("what the kernels cannot do is an error, and nothing is written") {
  const auto refused = [](const Case& c, uint32_t breaks, const char* text) {
    CHECK_THROWS_WITH_AS(differentiate(problem_of(c), ONE_KERNEL, breaks), doctest::Contains(text),
                         InputError);
  };
  refused({{1, 1, 8, 8, 136}}, 0, "head size 136: this chapter's kernels take multiples of 8");
  refused({{1, 1, 8, 8, 12}}, 0, "head size 12");
  refused({{1, 1, 8, 8, 64}, false, 1, 1, Dtype::f16}, NO_D, "breaks in bf16 only");
  Problem negative = problem_of({{1, 1, 8, 8, 64}});
  negative.scale = -1;
  CHECK_THROWS_WITH_AS(differentiate(negative, ONE_KERNEL), doctest::Contains("positive scale"),
                       InputError);
}

TEST_CASE("on a GPU: as on the emulator, and the same bits in 100 runs" *
          doctest::skip(!gpu_problem(gpu::ch10::build).empty())) {
  for (const bool causal : {false, true})
    for (const int64_t dim : {64, 128}) {
      const Problem problem = problem_of({{2, 4, 330, 520, dim}, causal, 2});
      const Gradients emulated = differentiate(problem, TWO_ROLES, 0, {}, true);
      Gradients got = emulated;
      std::vector<float> o(got.dq.size()), lse(problem.shape.rows());
      forward_on_gpu(ch09::KERNEL, problem, o, lse);
      std::vector<float> first;
      for (int run = 0; run < 100; ++run) {
        backward_on_gpu(ch10::KERNEL, problem, {o, lse, got.dq, got.dk, got.dv},
                        {0, {TWO_ROLES, 1}});
        if (run == 0) first = got.dq;
        REQUIRE(got.dq == first);
      }
      CHECK(check(problem, got).passed());
    }
}
