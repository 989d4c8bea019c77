#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "chapter.hpp"
#include "common/check.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch08::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

TEST_CASE("every barrier and every wait is needed, and its absence is reported") {
  every_synchronization_is_needed(KERNEL, 5);
}

TEST_CASE("counts what Nsight Compute counted") {
  const simt::Counters counters = count(KERNEL);
  // 4 warps, 8 tiles; S: 8 times 2 of Q and 4 of K, O: 4 times 8 of V
  CHECK(counters.ldmatrix_instructions == 4 * 8 * (8 * (2 + 4) + 4 * 8));
  CHECK(counters.mma_instructions == 8192);
  CHECK(counters.cp_async_instructions == 576);
  // 8 rows of a quad, 2 shuffles each for 2 rows at a time: the maximum moved in the first tile
  // only, and the row sums follow after the loop
  CHECK(counters.shuffle_instructions == 4 * (8 + 8));
  CHECK(counters.barriers == 96);
  CHECK(counters.shared_load_wavefronts == 10240);
  CHECK(counters.shared_load_wavefronts_ideal == 10240);
  CHECK(counters.shared_store_wavefronts == 2304);
  CHECK(counters.global_load_sectors == 9216);
  CHECK(counters.global_load_sectors_ideal == 9216);
  CHECK(counters.global_store_sectors == 2048);
  CHECK(counters.global_store_sectors_ideal == 1024);
  CHECK(counters.shared_bytes_per_block == 81920);
}

// Scores that rise or fall by `step` from key to key, the same in all rows.
Problem staircase(const Shape& shape, float step) {
  Problem problem = random_problem(shape, Dtype::bf16, 6, 0.0);  // q = 0
  for (int64_t row = 0; row < shape.batch * shape.heads * shape.q; ++row)
    problem.q[row * shape.dim] = 1;
  for (int64_t key = 0; key < shape.kv; ++key)
    problem.k[key * shape.dim] = to_float(to_bf16(step * static_cast<float>(key)));
  problem.scale = 1;
  return problem;
}

struct Answer {
  bool correct;
  int64_t moves;  // tiles of a warp in which a maximum moved
};
Answer answer(const Problem& problem) {
  std::vector<float> o(problem.shape.q_elements());
  const simt::Report report = forward_on_emulator(KERNEL, problem, o).report;
  // one warp: 8 shuffles per move, 8 for the row sums
  return {report.hazards.empty() && check_output(problem, o, {}).passed(),
          (report.counters.shuffle_instructions / 4 - 8) / 8};
}

TEST_CASE("the maximum moves only when the scores outgrow it by 2^8") {
  const Shape shape{1, 1, 128, 640, 128};  // one block, ten tiles
  // 64 keys at 1/64 add 1.44 in log2: more than 8 after 6 tiles, once.
  for (const auto& one : {std::pair{0.0f, 1}, {-1.0f, 1}, {1.0f / 64, 2}, {1.0f, 10}}) {
    const float step = one.first;  // clang 14 cannot capture a structured binding
    const int moves = one.second;
    const Answer result = answer(staircase(shape, step));
    INFO("step ", step);
    CHECK(result.correct);
    CHECK(result.moves == moves);
  }
}

TEST_CASE("a scale that is not positive is an error in one line") {
  refuses_scales_that_are_not_positive(KERNEL);
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL); }

TEST_CASE("breaks of the synchronization") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kOverwriteWhileRead);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kBarrierDivergence);
  is_reported_as(KERNEL, CONDITIONAL_COMMIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, WAIT_TOO_FEW, simt::HazardKind::kReadBeforeWait);
}

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

}  // namespace
