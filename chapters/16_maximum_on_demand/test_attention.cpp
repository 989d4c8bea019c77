#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "chapter.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const KernelChapter& KERNEL = ch16::CHAPTER;

// The kernel with --consumers as given.
void with_consumers(int consumers, void (*check)(const KernelChapter&)) {
  KernelOption option = KERNEL.options[0];
  option.otherwise = consumers;
  KernelChapter kernel = KERNEL;
  kernel.options = {&option, 1};
  INFO("--consumers ", consumers);
  check(kernel);
}

TEST_CASE("agrees with float64 on the named shapes, at three input scales") {
  agrees_on_named_shapes(KERNEL);
}

TEST_CASE("agrees with float64 on a large shape" * doctest::test_suite("large")) {
  agrees_on_a_large_shape(KERNEL);
}

TEST_CASE("agrees with float64 on random shapes") { agrees_on_random_shapes(KERNEL); }

TEST_CASE("agrees with NumPy's golden cases") { agrees_with_golden_cases(KERNEL); }

// A weight that is not 1 is rounded, which its row sum is not: the price of any maximum.
TEST_CASE("returns a constant V, to the last place") { returns_a_constant_v(KERNEL, 0x1p-7); }

TEST_CASE("gives the same bits under 100 schedules, without a hazard") {
  same_bits_under_every_schedule(KERNEL);
}

TEST_CASE("agrees with float64 with any number of consumers") {
  with_consumers(2, agrees_on_random_shapes);
  with_consumers(3, agrees_on_random_shapes);
  with_consumers(2, same_bits_under_every_schedule);
}

struct Answer {
  std::vector<float> o, lse;
  simt::Report report;
};

Answer answer(const Problem& problem, uint32_t breaks = 0, bool by_length = false) {
  Answer result{
      std::vector<float>(problem.shape.q_elements()), std::vector<float>(problem.shape.rows()), {}};
  const ForwardRun run{.breaks = breaks, .by_length = by_length};
  result.report = forward_on_emulator(KERNEL, problem, result.o, result.lse, run).report;
  return result;
}

void check_agrees(const Problem& problem, bool by_length = false) {
  INFO("shape ", to_string(problem.shape), ", kv heads ", problem.kv_heads(), ", window ",
       problem.window_left, ",", problem.right(), ", softcap ", problem.softcap);
  const Answer got = answer(problem, 0, by_length);
  CHECK(got.report.hazards.empty());
  const CheckResult result = check_output(problem, got.o, got.lse);
  CHECK_MESSAGE(result.passed(), describe(result, problem.shape));
  if (!gpu_problem(*KERNEL.gpu).empty()) return;
  std::vector<float> o(got.o.size()), lse(got.lse.size());
  forward_on_gpu(KERNEL, problem, o, lse, {.by_length = by_length});
  const CheckResult on_gpu = check_output(problem, o, lse);
  CHECK_MESSAGE(on_gpu.passed(), describe(on_gpu, problem.shape));
}

Problem causal(const Shape& shape, uint64_t seed = 1) {
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

TEST_CASE("causal: ragged both ways, one query, more queries than keys") {
  for (const Shape& shape :
       {Shape{1, 1, 1, 300, 64}, Shape{1, 2, 200, 70, 64}, Shape{1, 1, 300, 1, 128},
        Shape{2, 1, 257, 513, 64}, Shape{1, 1, 130, 131, 128}, Shape{1, 1, 1, 1, 64}}) {
    check_agrees(causal(shape));
  }
}

TEST_CASE("windows: each side, both, none of the keys, all of them") {
  const Shape shape{1, 1, 300, 260, 128};
  for (const auto& [left, right] :
       {std::pair{10, 5}, {0, 0}, {-1, 3}, {100, -1}, {64, 64}, {1000, 1000}, {127, 0}}) {
    check_agrees(window(shape, left, right));
    check_agrees(window({1, 1, 70, 600, 64}, left, right));
  }
  Problem both = window(shape, 20, 40);
  both.causal = true;  // the right side is then 0
  check_agrees(both);
}

TEST_CASE("heads of K and V that several heads of Q share, in both layouts") {
  for (const int64_t group : {1, 2, 6}) {
    Problem problem = random_problem({2, 6, 70, 90, 64}, Dtype::bf16, 4, 1, group);
    problem.causal = true;
    check_agrees(problem);
    check_agrees(problem, true);
    CHECK(answer(problem).o == answer(problem, 0, true).o);  // the same bits
  }
}

TEST_CASE("packed sequences: lengths 0 and 1, and all masks") {
  Problem problem = packed({1, 0, 130, 40, 5}, {7, 30, 70, 0, 140}, 64);
  check_agrees(problem);
  problem.causal = true;
  check_agrees(problem);
  problem.window_left = 20;
  check_agrees(problem);
  check_agrees(packed({100}, {90}, 128));
}

TEST_CASE("no row reads its neighbour sequence, also when NaN lies there") {
  const Problem clean = packed({70, 60, 50}, {90, 33, 130}, 64);
  const Answer expected = answer(clean);
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
    const Answer got = answer(poisoned(sequence));
    for (int64_t row = 0; row < clean.shape.rows(); ++row) {
      const int64_t query = row % clean.shape.q;
      const bool own = query >= clean.q_starts[sequence] && query < clean.q_starts[sequence + 1];
      CHECK(std::isnan(got.lse[row]) == own);
      if (!own) CHECK(got.lse[row] == expected.lse[row]);
    }
  }
}

TEST_CASE("a row that sees nothing gives 0 and an LSE of -inf; a NaN stays a NaN") {
  Problem problem = causal({1, 1, 200, 70, 64});  // the first 130 rows see nothing
  const Answer got = answer(problem);
  for (int64_t row = 0; row < 200; ++row) {
    CHECK((got.lse[row] == -INFINITY) == (row < 130));
    if (row < 130) CHECK(got.o[row * 64] == 0);
  }
  for (float& q : problem.q) q = std::nanf("");
  const Answer all_nan = answer(problem);
  CHECK(std::isnan(all_nan.o[150 * 64]));  // l = 0 would have hidden it
  CHECK(all_nan.o[0] == 0);
}

bool right(const Problem& problem, uint32_t breaks) {
  const Answer got = answer(problem, breaks);
  return got.report.hazards.empty() && check_output(problem, got.o, got.lse).passed();
}

TEST_CASE("head sizes 64 and 128, two or three consumers, a positive scale: the rest is refused") {
  const auto refuses = [](Problem problem, int consumers) {
    std::vector<float> o(problem.shape.q_elements());
    const ForwardRun run{.options = {consumers}};
    CHECK_THROWS_AS(forward_on_emulator(KERNEL, problem, o, {}, run), InputError);
  };
  refuses(random_problem({1, 1, 4, 4, 96}, Dtype::bf16, 1), 0);
  const Problem problem = random_problem({1, 1, 4, 4, 64}, Dtype::bf16, 1);
  refuses(problem, 1);
  Problem negative = problem, softcap = problem;
  negative.scale = -0.125;
  refuses(negative, 0);
  softcap.softcap = 2;
  refuses(softcap, 0);
}

}  // namespace
