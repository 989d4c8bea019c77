// Compares chapter 22's kernels on the emulator with float64.
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

struct Case {
  Shape shape;
  bool causal = false;
  int64_t group = 1;
  double input_scale = 1;
  Dtype dtype = Dtype::bf16;
  int64_t window_left = -1, window_right = -1;
};

Problem problem_of(const Case& c) {
  Problem problem = random_problem(c.shape, c.dtype, 1, c.input_scale, c.group);
  problem.causal = c.causal;
  problem.window_left = c.window_left;
  problem.window_right = c.window_right;
  problem.d_o = random_values(like_q(problem), c.dtype, 1, 0);
  return problem;
}

struct Gradients {
  std::vector<float> dq, dk, dv, d_sinks;
  simt::Report report;
};

struct Run {
  uint32_t breaks = 0;
  bool deterministic = false, by_length = false;
  int heads_at_once = 0;
};

// Uses O, rounded, and LSE from float64.
Gradients differentiate(const Problem& problem, const Run& run = {},
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
                   std::vector<float>(problem.sinks.size()),
                   {}};
  result.report =
      backward_on_emulator(
          ch22::KERNEL, problem, {o, lse, result.dq, result.dk, result.dv, result.d_sinks},
          {run.breaks, {run.heads_at_once, run.deterministic}, run.by_length}, config)
          .report;
  return result;
}

GradientCheck check(const Problem& problem, const Gradients& got) {
  return check_gradients(problem, problem.d_o, got.dq, got.dk, got.dv);
}

std::string texts(const Gradients& got) {
  std::string text;
  for (const simt::Hazard& hazard : got.report.hazards) text += hazard.text + "\n";
  return text;
}

void agrees(const Case& c) {
  const Problem problem = problem_of(c);
  CAPTURE(to_string(c.shape));
  CAPTURE(c.causal);
  const Gradients got = differentiate(problem);
  const GradientCheck result = check(problem, got);
  CHECK_MESSAGE(result.passed(), describe(result, problem));
  CHECK(texts(got) == "");
}

bool reports(const Gradients& got, simt::HazardKind kind, const char* file) {
  for (const simt::Hazard& hazard : got.report.hazards)
    if (hazard.kind == kind && hazard.text.find(file) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("the kernels agree with float64, at any length") {
  for (const int64_t dim : {64, 128}) {
    agrees({{1, 1, 64, 128, dim}});
    agrees({{1, 2, 130, 200, dim}});
    agrees({{2, 3, 1, 129, dim}});
    agrees({{1, 1, 129, 1, dim}});
    agrees({{1, 1, 300, 260, dim}, false, 1, 5});
  }
  agrees({{1, 2, 130, 200, 64}, false, 1, 1, Dtype::f16});
  agrees({{1, 1, 130, 200, 128}, false, 1, 1, Dtype::f16});
  for (const int64_t dim : {64, 128}) agrees({{1, 1, 300, 260, dim}, true, 1, 5, Dtype::f16});
}

TEST_CASE("under a causal mask, also where rows see no key") {
  for (const int64_t dim : {64, 128}) {
    agrees({{1, 2, 200, 200, dim}, true});
    agrees({{1, 1, 77, 300, dim}, true, 1, 5});
    agrees({{1, 1, 300, 77, dim}, true});
  }
}

TEST_CASE("in a window, also where tiles are skipped and rows see no key") {
  const auto windowed = [](Case c, int64_t left, int64_t right) {
    c.window_left = left;
    c.window_right = right;
    agrees(c);
  };
  for (const int64_t dim : {64, 128}) {
    windowed({{1, 1, 300, 300, dim}, true}, 70, -1);
    windowed({{1, 1, 200, 400, dim}, false, 1, 5}, 0, 0);
    windowed({{1, 1, 400, 150, dim}}, 30, 40);  // the first and last queries see no key
    windowed({{1, 1, 130, 390, dim}}, -1, 10);
    windowed({{1, 1, 130, 390, dim}}, 10, -1);
    windowed({{1, 1, 130, 130, dim}}, 1000000, 1000000);  // every key
  }
  windowed({{2, 4, 130, 260, 64}, true, 2}, 100, -1);
  windowed({{1, 1, 130, 260, 128}, true, 1, 1, Dtype::f16}, 100, -1);
}

TEST_CASE("deterministic in a window: the same bits under every schedule") {
  Problem problem = problem_of({{1, 2, 400, 400, 128}, true});
  problem.window_left = 150;
  const Gradients first = differentiate(problem, {.deterministic = true});
  CHECK(check(problem, first).passed());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Gradients other =
        differentiate(problem, {.deterministic = true}, {.schedule_seed = seed});
    CHECK(texts(other) == "");
    CHECK(other.dq == first.dq);
  }
}

TEST_CASE("heads of K and V that several heads share get the sum of their gradients") {
  agrees({{1, 4, 130, 130, 64}, true, 2});
  agrees({{2, 6, 70, 140, 128}, false, 3});
}

// Lengths of 0 and 1, of parts of tiles, and with more queries than keys.
Problem packed(int64_t dim, const Case& masks, Dtype dtype = Dtype::bf16) {
  Problem problem = problem_of(
      {{1, 4, 331, 467, dim}, masks.causal, 2, 1, dtype, masks.window_left, masks.window_right});
  problem.q_starts = {0, 1, 1, 131, 171, 176, 331};
  problem.kv_starts = {0, 7, 37, 107, 107, 307, 467};
  return problem;
}

TEST_CASE("packed sequences: with every mask, lengths of 0 and 1, and more queries than keys") {
  for (const int64_t dim : {64, 128}) {
    for (const Case& masks : {Case{}, Case{.shape = {}, .causal = true},
                              Case{.shape = {}, .window_left = 30, .window_right = 20},
                              Case{.shape = {}, .causal = true, .window_left = 50}}) {
      Problem problem = packed(dim, masks);
      CAPTURE(in_words(problem));
      const Gradients got = differentiate(problem);
      const GradientCheck result = check(problem, got);
      CHECK_MESSAGE(result.passed(), describe(result, problem));
      CHECK(texts(got) == "");
    }
  }
  Problem problem = packed(128, {.shape = {}, .causal = true}, Dtype::f16);
  problem.sinks = random_sinks(problem, 1);
  const GradientCheck result = check(problem, differentiate(problem));
  CHECK_MESSAGE(result.passed(), describe(result, problem));
}

TEST_CASE("packed sequences, deterministic: the same bits under every schedule and layout") {
  const Problem problem = packed(64, {.shape = {}, .causal = true});
  const Gradients first = differentiate(problem, {.deterministic = true});
  CHECK(check(problem, first).passed());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Gradients other =
        differentiate(problem, {.deterministic = true, .by_length = true}, {.schedule_seed = seed});
    CHECK(texts(other) == "");
    CHECK(other.dq == first.dq);
    CHECK(other.dk == first.dk);
  }
}

TEST_CASE("sinks: all gradients, and their own as a difference of two losses says") {
  for (Case c : {Case{{2, 4, 130, 130, 64}, true, 2}, Case{{1, 2, 300, 77, 128}, true},
                 Case{{1, 2, 200, 300, 128}}}) {
    if (!c.causal) c.window_left = 50, c.window_right = 20;
    Problem problem = problem_of(c);
    problem.sinks = random_sinks(problem, 1);
    problem.sinks[1] = -INFINITY;
    const Gradients got = differentiate(problem);
    const GradientCheck result = check(problem, got);
    CHECK_MESSAGE(result.passed(), describe(result, problem));
    CHECK(texts(got) == "");
    CHECK(got.d_sinks[1] == 0);
    const double expected =
        fa::test::by_difference(problem, 0);  // O is rounded, so D is off by 1 %
    CHECK(std::abs(got.d_sinks[0] - expected) <= 0.01 * std::abs(expected));
  }
}

TEST_CASE("zeros of K's tail times the Inf of a score that is very small") {
  for (const int64_t dim : {64, 128}) {
    Problem low = problem_of({{1, 1, 64, 100, dim}});  // scores of -100 and less
    for (float& value : low.q) value = -4;
    for (float& value : low.k) value = 4;
    CHECK(check(low, differentiate(low)).agrees());
  }
}

TEST_CASE("dK and dV have the same bits under every schedule, and no hazard is found") {
  for (const int64_t dim : {64, 128}) {
    const Problem problem = problem_of({{1, 1, 150, 300, dim}, dim == 64});
    const Gradients first = differentiate(problem);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const Gradients other = differentiate(problem, {}, {.schedule_seed = seed});
      CHECK(texts(other) == "");
      CHECK(other.dk == first.dk);
      CHECK(other.dv == first.dv);
      CHECK(check(problem, other).passed());
    }
  }
}

TEST_CASE("deterministic: the same bits under every schedule, and only by waiting for one's turn") {
  // Cases: rotated; in the grid's order, because there are fewer tiles of queries than of keys;
  // causal. Six tiles of keys, because fewer sums of the tensor cores often give the same bits in
  // any order.
  for (const Case& c : {Case{{1, 1, 520, 700, 128}}, Case{{1, 1, 130, 700, 128}},
                        Case{{1, 1, 330, 700, 128}, true}, Case{{1, 2, 700, 700, 64}, false, 2}}) {
    const Problem problem = problem_of(c);
    CAPTURE(to_string(c.shape));
    const Gradients first = differentiate(problem, {.deterministic = true});
    CHECK(check(problem, first).passed());
    bool differs = false;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const simt::Config config{.schedule_seed = seed};
      const Gradients other = differentiate(problem, {.deterministic = true}, config);
      CHECK(texts(other) == "");
      CHECK(other.dq == first.dq);
      const Gradients unordered =
          differentiate(problem, {.breaks = DQ_OUT_OF_TURN, .deterministic = true}, config);
      CHECK(check(problem, unordered).passed());
      differs |= unordered.dq != first.dq;
    }
    CHECK(differs);
  }
}

TEST_CASE("each break shows itself") {
  for (const int64_t dim : {64, 128}) {
    const Problem problem = problem_of({{1, 1, 200, 130, dim}});
    const auto broken = [&](uint32_t bit) { return differentiate(problem, {.breaks = bit}); };
    using simt::HazardKind;
    CHECK(reports(broken(DQ_OVERWRITTEN), HazardKind::kOverwriteWhileRead, "kernel.hpp"));
    CHECK(reports(broken(DS_WITHOUT_FENCE), HazardKind::kMissingProxyFence, "products.hpp"));
    CHECK(reports(broken(REDUCE_BEFORE_LANDED), HazardKind::kReadBeforeBarrier, "kernel.hpp"));
    const Gradients swapped = broken(SWAPPED_TRANSPOSE);
    CHECK(texts(swapped) == "");
    CHECK(!check(problem, swapped).dq.agrees());
    CHECK(check(problem, swapped).dk.agrees());
    CHECK(check(problem, swapped).dv.agrees());
    const GradientCheck uncleared = check(problem, broken(DQ_NOT_CLEARED));
    CHECK(uncleared.dq.values.nonfinite > 0);
    CHECK(uncleared.dk.agrees());
  }
}

TEST_CASE("what a pair of tiles costs: products, adds, wavefronts") {
  for (const int64_t dim : {64, 128}) {
    const int64_t pairs = 3 * 2, tile_q = 8192 / dim;
    const Problem problem = problem_of({{1, 1, 3 * tile_q, 256, dim}});
    const simt::Counters counters = differentiate(problem).report.counters;
    CAPTURE(dim);
    // Instructions of two warpgroups, counted per warp: S, dP: dim / 16, and one for LSE or D; dV,
    // dK: tile_q / 16; dQ: 128 keys / 16.
    CHECK(counters.wgmma_instructions ==
          pairs * 8 * (2 * (dim / 16 + 1) + 2 * tile_q / 16 + 128 / 16));
    CHECK(counters.global_atomics == 0);
    CHECK(counters.shared_store_wavefronts == counters.shared_store_wavefronts_ideal);
    // Boxes: Q, dO and the summands of each pair, two adds; K, V, and two halves of dK and of dV.
    CHECK(counters.tma_instructions == pairs * (3 + 2) + 2 * (2 + 4));
    CHECK(counters.tma_bytes == pairs * (2 * 16384 + tile_q * 16 + 32768) + 2 * 4 * 128 * dim * 2);
  }
}

TEST_CASE("tensors may be stored by length, and heads in another order") {
  const Problem problem = problem_of({{2, 4, 100, 150, 64}, true, 2});
  const Gradients plain = differentiate(problem, {.deterministic = true});
  for (const Run& run : {Run{.deterministic = true, .by_length = true},
                         Run{.deterministic = true, .heads_at_once = 3}}) {
    const Gradients other = differentiate(problem, run);
    CHECK(other.dq == plain.dq);
    CHECK(other.dk == plain.dk);
    CHECK(other.dv == plain.dv);
  }
}

TEST_CASE("what the kernels cannot do is an error") {
  CHECK_THROWS_WITH_AS(differentiate(problem_of({{1, 1, 8, 8, 96}})),
                       doctest::Contains("head size 96"), InputError);
  Problem negative = problem_of({{1, 1, 8, 8, 64}});
  negative.scale = -1;
  CHECK_THROWS_WITH_AS(differentiate(negative), doctest::Contains("positive scale"), InputError);
  negative.scale = 1e-35;  // LSE / scale has to be finite
  CHECK_THROWS_WITH_AS(differentiate(negative), doctest::Contains("1e-30 or more"), InputError);
}

TEST_CASE("on a GPU: as on the emulator, and the same bits in 100 runs" *
          doctest::skip(!gpu_problem(gpu::ch22::build).empty())) {
  for (const bool causal : {false, true})
    for (const int64_t dim : {64, 128}) {
      const Problem problem = problem_of({{2, 4, 330, 520, dim}, causal, 2});
      Gradients got = differentiate(problem, {.deterministic = true});
      std::vector<float> o(got.dq.size()), lse(problem.shape.rows());
      forward_on_gpu(ch09::KERNEL, problem, o, lse);
      std::vector<float> first;
      for (int run = 0; run < 100; ++run) {
        backward_on_gpu(ch22::KERNEL, problem, {o, lse, got.dq, got.dk, got.dv}, {0, {0, 1}});
        if (run == 0) first = got.dq;
        REQUIRE(got.dq == first);
      }
      CHECK(check(problem, got).passed());
    }
}
