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

const Kernel& KERNEL = ch21::KERNEL;

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

TEST_CASE("sinks: under all masks, with two and three consumers") {
  agrees_with_sinks(KERNEL);
  with_options(KERNEL, {2, 0}, agrees_with_sinks);
  with_options(KERNEL, {3, 0}, agrees_with_sinks);
}

TEST_CASE("sinks of -inf change no bit, large ones take all, a NaN stays in its head") {
  sinks_may_be_none_or_large(KERNEL);
}

TEST_CASE("maxima that rise in every tile, now and then, once: right in every kernel") {
  rising_maxima_are_right(KERNEL);
}

TEST_CASE("blocks that take several tiles of queries give the same bits") {
  several_tiles_give_the_same_bits(KERNEL);
}

TEST_CASE("a NaN in a row of Q harms that row alone") { a_nan_harms_its_row_alone(KERNEL); }

// Blocks that take several tiles, some of them of a longer sequence, or cut.
TEST_CASE("packed sequences: any number of consumers and blocks") {
  for (const int blocks : {1, 4, 7, 9})
    for (const int consumers : {2, 3})
      with_options(KERNEL, {consumers, blocks}, agrees_on_packed_sequences);
}

// Rows of 2048 keys, or 4096 at D = 128, take larger tiles, and two buffers instead of four.
TEST_CASE("long rows: right in the kernels that only they take") {
  for (const int64_t dim : {64, 128}) {
    const int64_t keys = dim == 64 ? 2100 : 4100;
    Problem problem = random_problem({1, 2, 200, keys, dim}, Dtype::bf16, 4);
    check_right(KERNEL, problem, {3, 0});
    problem.causal = true;
    check_right(KERNEL, problem, {3, 1});
    check_right(KERNEL, rising({1, 1, 70, keys, dim}, 0.5), {3, 0});
  }
}

// Seven tiles of 150 rows for six blocks, so the seventh is cut into three parts.
TEST_CASE("a tile that would leave most blocks without work is cut, and gives the same bits") {
  Problem problem = random_problem({1, 7, 150, 300, 64}, Dtype::bf16, 5);
  for (const bool causal : {false, true}) {
    problem.causal = causal;
    check_right(KERNEL, problem, {3, 6});
    const Answer whole = answer(problem, 0, false, {3, 7}), cut = answer(problem, 0, false, {3, 6});
    CHECK(cut.o == whole.o);
    // One claim per tile or part beyond the blocks' first, and a last one per block.
    CHECK(whole.report.counters.global_atomics == 7);
    CHECK(cut.report.counters.global_atomics == 3 + 6);
  }
}

int64_t mma_instructions(const Problem& problem) {
  return answer(problem, 0, false, {2, 0}).report.counters.mma_instructions;
}

TEST_CASE("a tile is recomputed where a sum is too large") {
  const int64_t tile = 4 * 4 * 16;  // 4 warps, 64 columns of Q and K, 128 keys
  CHECK(mma_instructions(random_problem({1, 1, 64, 128 * 24, 64}, Dtype::bf16, 6)) == 0);
  // With a mask the first tile comes first. Its weights are alike, so nothing warns of the jump in
  // tile 12.
  Problem jump = rising({1, 1, 64, 128 * 24, 64}, 300, true);
  jump.causal = true;
  CHECK(mma_instructions(jump) == tile);
}

// The first two tiles are the last and the first of the row, so one of them has the largest scores.
TEST_CASE("scores that rise or fall: at most one tile is recomputed without a mask") {
  const int64_t tile = 4 * 4 * 16;
  for (const double step : {0.25, -0.25}) {
    const Problem problem = rising({1, 1, 64, 128 * 8, 64}, step);
    CHECK(mma_instructions(problem) == (step > 0 ? 0 : tile));
    check_right(KERNEL, problem, {2, 0});
  }
}

// Scores are 20 times as large, so that in the first tile, one key has nearly all the weight of a
// row.
TEST_CASE("sharp scores: no tile is recomputed, because the first one leaves room") {
  Problem problem = random_problem({1, 1, 64, 128 * 8, 64}, Dtype::bf16, 1);
  CHECK(mma_instructions(problem) == 0);
  problem.scale *= 20;
  CHECK(mma_instructions(problem) == 0);
  check_right(KERNEL, problem, {2, 0});
}

TEST_CASE("rows of O that overflow are recomputed") {
  for (const auto& options : COMPILED) check_right(KERNEL, overflowing(), options);
  Problem several = rising({2, 3, 300, 700, 64}, 30, true);  // the list has more than one tile
  for (float& v : several.v) v = round_bf16(v * 1e30);
  check_right(KERNEL, several, {2, 1});
}

// The hazards of one block that takes the tiles of `heads` heads one after the other.
std::string hazards_of(uint32_t breaks, int64_t heads, int64_t keys) {
  const Problem problem = random_problem({1, heads, 128, keys, 64}, Dtype::bf16, 3);
  std::string kinds;
  for (const auto& hazard : answer(problem, breaks, false, {2, 1}).report.hazards)
    kinds += std::string(simt::hazard_name(hazard.kind)) + " ";
  return kinds;
}

// The ticket that ends the block takes a buffer, too.
TEST_CASE("break: two buffers are enough for one tile and the end, and more need the wait") {
  CHECK(hazards_of(Q_OVER_Q, 1, 256) == "");
  CHECK(hazards_of(Q_OVER_Q, 4, 256).find("overwrite_while_read") == 0);
  CHECK(hazards_of(NO_STORE_WAIT, 4, 256).find("overwrite_while_read") == 0);
}

TEST_CASE("break: a ticket is read before the wait, and a store lacks its fence") {
  CHECK(hazards_of(EARLY_INDEX, 3, 256).find("read_before_barrier") != std::string::npos);
  CHECK(hazards_of(NO_STORE_FENCE, 1, 256).find("missing_proxy_fence") == 0);
}

TEST_CASE("break: phases that restart are right where each buffer was used twice") {
  CHECK(hazards_of(RESTARTED_PHASES, 2, 512) == "");
  CHECK(hazards_of(RESTARTED_PHASES, 2, 384) != "");
}

TEST_CASE("break: a missing wait for K") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
}

// Six tiles of queries for one block, in none of which a warpgroup only skips. Each has two tiles
// of keys, because with three, the ring of K would hold the producer back from Q, too. The vote,
// which decides which group of tiles is exact, is there for speed.
TEST_CASE("every barrier, wait, arrival, fence and expect_tx is needed, and its absence reported") {
  with_options(KERNEL, {3, 1}, [](const Kernel& kernel) {
    every_synchronization_is_needed(kernel, 27, "barrier_red_or", {1, 3, 384, 250, 64});
  });
}

// 128 queries take a block of two consumers, 8 warps; 512 keys are 4 tiles of 128.
TEST_CASE("counts what follows from the tiles") {
  const simt::Counters counters = count(KERNEL);
  CHECK(counters.wgmma_instructions == 4 * 8 * (8 + 8));  // 128 columns of Q and K, 128 rows of V
  CHECK(counters.mma_instructions == 0);                  // no tile was recomputed
  // Words of tickets that the 8 warps read: 8 of the first, 8 of the last, 7 again, and a list.
  CHECK(counters.shared_load_wavefronts == 8 * (8 + 8 + 7 + 1));
  CHECK(counters.tma_instructions == 1 + 2 * 4 + 8 * 2);  // a warp's rows of O are two panels
  CHECK(counters.tma_bytes == (128 + 2 * 4 * 128 + 128) * 256);
  CHECK(counters.shared_bytes_per_block == (2 * 128 + 4 * 128) * 256 + 1024 + 64 + 13 * 8 + 48);
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
