#include <doctest/doctest.h>

#include "chapter.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch15::KERNEL;

TEST_CASE("agrees with float64 on the named shapes, at three input scales") {
  agrees_on_named_shapes(KERNEL);
}

TEST_CASE("agrees with float64 on a large shape" * doctest::test_suite("large")) {
  agrees_on_a_large_shape(KERNEL);
}

TEST_CASE("agrees with float64 on random shapes") { agrees_on_random_shapes(KERNEL); }

TEST_CASE("agrees with NumPy's golden cases") { agrees_with_golden_cases(KERNEL); }

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

TEST_CASE("agrees with float64 with any number of consumers, with and without turns") {
  with_options(KERNEL, {2, 0}, agrees_on_random_shapes);
  with_options(KERNEL, {2, 1}, agrees_on_random_shapes);
  with_options(KERNEL, {3, 1}, agrees_on_random_shapes);
}

TEST_CASE("gives the same bits under 100 schedules, without a hazard") {
  same_bits_under_every_schedule(KERNEL);
  with_options(KERNEL, {3, 1}, same_bits_under_every_schedule);
  with_options(KERNEL, {2, 1}, same_bits_under_every_schedule);
}

// 2 mbarrier_init and their fence, block_sync, 5 waits, mbarrier_arrive_expect_tx, 2 arrivals;
// 2 setmaxnreg; 2 wgmma_fence, 3 wgmma_wait: S of the first tile, S of another, O
TEST_CASE("every barrier, wait, arrival, fence and expect_tx is needed, and its absence reported") {
  every_synchronization_is_needed(KERNEL, 19);
}

// The named barriers decide which consumer multiplies next. They order no data, so a consumer that
// does not wait for its turn is correct as well. But one that waits needs another that arrives.
TEST_CASE("turns: an arrival is needed, the wait for it is there for speed") {
  for (const int consumers : {2, 3})
    with_options(KERNEL, {consumers, 1}, [](const Kernel& kernel) {
      every_synchronization_is_needed(kernel, 19 + 2, "barrier_sync");
    });
}

// 128 queries take a block of 192, three warpgroups of 4 warps; 512 keys are 7 tiles of 80.
TEST_CASE("counts what follows from the tiles") {
  const simt::Counters counters = count(KERNEL);
  CHECK(counters.wgmma_instructions == 7 * 12 * (8 + 5));  // 128 columns of Q and K, 80 rows of V
  CHECK(counters.shared_load_wavefronts == 0);
  CHECK(counters.barriers == 16);                                // block_sync
  CHECK(counters.shuffle_instructions == 12 * (1 + 2 * 2 * 2));  // for `consumer`; for m of the
                                                                 // first
  CHECK(counters.tma_instructions == 1 + 2 * 7);                 // tile and l, of two rows each
  CHECK(counters.tma_bytes == (192 + 2 * 7 * 80) * 256);
  // 9 are initialized, 15 are told of bytes; the producer waits 14 times; 12 warps wait for Q and
  // for each K and V; 3 warpgroups arrive for each
  CHECK(counters.mbarrier_operations == 9 + 15 + 14 + 12 * (1 + 2 * 7) + 3 * 2 * 7);
  CHECK(counters.global_store_sectors == 2048);
  // Q, then K and V twice, 128 columns each, 1024 to align it, nine mbarriers
  CHECK(counters.shared_bytes_per_block == (192 + 4 * 80) * 256 + 1024 + 9 * 8);
}

TEST_CASE("turns add one wait and one arrival of each warp and tile, and nothing else") {
  with_options(KERNEL, {3, 1}, [](const Kernel& kernel) {
    const simt::Counters without = count(KERNEL), with = count(kernel);
    // 4 warps start the first turn, so consumer 0 gets one more than it takes
    CHECK(with.barriers == without.barriers + 12 * 2 * 7 + 4);
    for (const simt::CounterField& field : simt::kCounterFields) {
      CAPTURE(field.name);
      if (field.value != &simt::Counters::barriers)
        CHECK(with.*field.value == without.*field.value);
    }
  });
}

TEST_CASE("a scale that is not positive is an error in one line") {
  refuses_scales_that_are_not_positive(KERNEL);
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL, 256); }

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

KernelBreak own(OverlapBreak flag) { return static_cast<KernelBreak>(flag); }
using simt::HazardKind;

TEST_CASE("breaks of the overlap") {
  const Shape one_tile{1, 1, 64, 20, 64};  // nothing is in flight during its softmax
  is_reported_as(KERNEL, MISSING_WAIT, HazardKind::kReadBeforeWait);
  for (const OverlapBreak flag : {EARLY_PACK, WAIT_FOR_NEITHER}) {
    is_reported_as(KERNEL, own(flag), HazardKind::kRegistersInFlight);
    is_harmless(KERNEL, own(flag), one_tile);
  }
}

TEST_CASE("break: an early rescale shows where a maximum grows by more than 2^8") {
  is_reported_as(KERNEL, own(EARLY_RESCALE), HazardKind::kRegistersInFlight, 30.0);
  is_harmless(KERNEL, own(EARLY_RESCALE), {1, 1, 70, 450, 64});  // at scale 1 none does
}

TEST_CASE("break: without a first turn no warpgroup can start") {
  for (const int consumers : {2, 3})
    with_options(KERNEL, {consumers, 1}, [](const Kernel& kernel) {
      is_reported_as(kernel, own(NO_FIRST_TURN), HazardKind::kDeadlock);
    });
  is_harmless(KERNEL, own(NO_FIRST_TURN), {1, 1, 70, 450, 64});  // there are no turns
}

}  // namespace
