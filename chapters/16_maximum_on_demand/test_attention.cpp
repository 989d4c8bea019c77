#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "chapter.hpp"
#include "chapters/16_maximum_on_demand/test_maximum.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch16::KERNEL;

FORWARD_TESTS(KERNEL)

// A weight other than 1 is rounded, but its row sum is not, which is the cost of any maximum.
TEST_CASE("returns a constant V, to the last place") { returns_a_constant_v(KERNEL, 0x1p-7); }

TEST_CASE("agrees with float64 with any number of consumers and blocks") {
  with_options(KERNEL, {2, 1}, agrees_on_random_shapes);
  with_options(KERNEL, {3, 0}, agrees_on_random_shapes);
  with_options(KERNEL, {3, 1}, agrees_on_random_shapes);
  with_options(KERNEL, {3, 1}, same_bits_under_every_schedule);
}

Answer answer(const Problem& problem, uint32_t breaks = 0, bool by_length = false,
              const std::vector<int>& options = {}) {
  return fa::test::answer(KERNEL, problem,
                          {.breaks = breaks, .options = options, .by_length = by_length});
}

MASK_TESTS(KERNEL)

TEST_CASE("sinks: under all masks, with any number of consumers") {
  agrees_with_sinks(KERNEL);
  with_options(KERNEL, {2, 1}, agrees_with_sinks);
}

TEST_CASE("sinks of -inf change no bit, large ones take all, a NaN stays in its head") {
  sinks_may_be_none_or_large(KERNEL);
}

TEST_CASE("maxima that rise in every tile, now and then, once: right in every kernel") {
  rising_maxima_are_right(KERNEL);
  check_right(KERNEL, rising({1, 1, 200, 2100, 64}, 0.5), {3, 0});  // long rows, one block per tile
  check_right(KERNEL, rising({1, 1, 200, 2100, 128}, 2.0), {3, 0});
}

TEST_CASE("blocks that take several tiles of queries give the same bits") {
  several_tiles_give_the_same_bits(KERNEL);
}

TEST_CASE("a NaN in a row of Q harms that row alone") { a_nan_harms_its_row_alone(KERNEL); }

TEST_CASE("tiles are recomputed where a sum is too large, after a look at their maximum") {
  const auto again = [](double step) {
    const Answer got = answer(rising({1, 1, 64, 128 * 24, 64}, step), 0, false, {2, 0});
    return got.report.counters.mma_instructions;
  };
  const int64_t tile = 4 * 4 * 16;  // 4 warps, 64 columns of Q and K, 128 keys
  CHECK(again(0) == 0);
  CHECK(again(2) == 3 * tile);  // tiles 1, 2 and 3; after the vote before tile 4, no guess
}

TEST_CASE("rows of O that overflow are recomputed") {
  for (const auto& options : COMPILED) check_right(KERNEL, overflowing(), options);
  Problem problem = rising({1, 1, 200, 2100, 64}, 30, true);
  for (float& v : problem.v) v = round_bf16(v * 1e30);
  check_right(KERNEL, problem, {3, 0});
  problem = causal({1, 1, 300, 2200, 64});
  check_right(KERNEL, problem, {3, 0});
}

TEST_CASE("break: without a second try they stay what they are") {
  for (const auto& options : COMPILED) {
    const Answer got = answer(overflowing(), NO_SECOND_TRY, false, options);
    CHECK(got.report.hazards.empty());
    CHECK_FALSE(std::all_of(got.o.begin(), got.o.end(), [](float x) { return std::isfinite(x); }));
  }
}

bool right(const Problem& problem, uint32_t breaks) {
  const Answer got = answer(problem, breaks);
  return got.report.hazards.empty() && check_output(problem, got.o, got.lse).passed();
}

bool all_finite(const std::vector<float>& o) {
  return std::all_of(o.begin(), o.end(), [](float x) { return std::isfinite(x); });
}

// A kernel that ignores the sums is saved by the second try, which checks O and takes far longer.
TEST_CASE("break: without the check of the sums rows overflow; ordinary inputs do not notice") {
  const Problem problem = rising({1, 1, 70, 700, 64}, 2);
  CHECK(answer(problem).report.counters.global_load_sectors == 0);
  const Answer saved = answer(problem, NO_SUM_CHECK);
  CHECK(saved.report.counters.global_load_sectors > 0);
  CHECK(right(problem, NO_SUM_CHECK));
  const Answer got = answer(problem, NO_SUM_CHECK | NO_SECOND_TRY);
  CHECK(got.report.hazards.empty());
  CHECK_FALSE(all_finite(got.o));
  CHECK(right(random_problem({1, 1, 70, 700, 64}, Dtype::bf16, 1), NO_SUM_CHECK | NO_SECOND_TRY));
}

TEST_CASE("break: K's buffer given back too early is overwritten while it is read again") {
  const Answer got = answer(rising({1, 1, 70, 1500, 64}, 2), EARLY_RELEASE);
  REQUIRE_FALSE(got.report.hazards.empty());
  CHECK(got.report.hazards[0].kind == simt::HazardKind::kOverwriteWhileRead);
  CHECK(right(random_problem({1, 1, 70, 700, 64}, Dtype::bf16, 1), EARLY_RELEASE));
}

TEST_CASE("break: top-left is wrong as soon as the lengths differ") {
  CHECK(right(causal({1, 1, 100, 100, 64}), TOP_LEFT_MASK));
  CHECK_FALSE(right(causal({1, 1, 100, 130, 64}), TOP_LEFT_MASK));
}

TEST_CASE("break: an unmasked diagonal shows the future, an unmasked tail what is not there") {
  CHECK_FALSE(right(causal({1, 1, 100, 100, 64}), UNMASKED_DIAGONAL));
  CHECK_FALSE(right(random_problem({1, 1, 64, 70, 64}, Dtype::bf16, 1), UNMASKED_DIAGONAL));
  CHECK(right(random_problem({1, 1, 64, 256, 64}, Dtype::bf16, 1), UNMASKED_DIAGONAL));
}

TEST_CASE("breaks of the softmax") {
  no_max_overflows(KERNEL);
  is_finite_and_wrong(KERNEL, NO_RESCALE, {1, 1, 64, 256, 64});
  is_harmless(KERNEL, NO_RESCALE, {1, 1, 64, 20, 64});  // one tile: nothing to rescale
  is_finite_and_wrong(KERNEL, SHUFFLE_MASK_0X10, {1, 1, 64, 128, 64});
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
}

// Two tiles of queries for one block. Waits of a warpgroup that only skips are excluded, because a
// missing one shows only if others lag behind, which the emulator does not test.
TEST_CASE("every barrier, wait, arrival, fence and expect_tx is needed, and its absence reported") {
  with_options(KERNEL, {2, 1}, [](const Kernel& kernel) {
    every_synchronization_is_needed(kernel, 20, "", {1, 1, 256, 450, 64});
  });
}

// 128 queries take a block of two consumers, 8 warps; 512 keys are 4 tiles of 128.
TEST_CASE("counts what follows from the tiles") {
  const simt::Counters counters = count(KERNEL);
  CHECK(counters.wgmma_instructions == 4 * 8 * (8 + 8));  // 128 columns of Q and K, 128 rows of V
  CHECK(counters.mma_instructions == 0);                  // no tile was recomputed
  CHECK(counters.shared_load_wavefronts == 0);
  CHECK(counters.tma_instructions == 1 + 2 * 4);
  CHECK(counters.tma_bytes == (128 + 2 * 4 * 128) * 256);
  CHECK(counters.global_store_sectors == 1024);  // 16 bytes per lane, which are whole sectors
  CHECK(counters.shared_bytes_per_block == (128 + 4 * 128) * 256 + 1024 + 11 * 8);
}

TEST_CASE("head sizes 64 and 128, two or three consumers, a positive scale: the rest is refused") {
  const auto refuses = [](const Problem& problem, int consumers) {
    std::vector<float> o(problem.shape.q_elements());
    const KernelRun run{.options = {consumers}};
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
