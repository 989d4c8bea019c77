#include <doctest/doctest.h>

#include "chapter.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch14::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

// 2 mbarrier_init and their fence, block_sync, 5 waits, mbarrier_arrive_expect_tx, 2 arrivals;
// 2 setmaxnreg; 2 wgmma_fence, 2 wgmma_wait
TEST_CASE("every barrier, wait, arrival, fence and expect_tx is needed, and its absence reported") {
  every_synchronization_is_needed(KERNEL, 18);
}

TEST_CASE("two consumers agree with float64, too") {
  with_options(KERNEL, {2}, agrees_on_random_shapes);
}

TEST_CASE("counts what Nsight Compute counted") {
  const simt::Counters counters = count(KERNEL);
  // 5 tiles of 112 keys, 3 warpgroups of 4 warps: 8 for S, 7 for O
  CHECK(counters.wgmma_instructions == 5 * 12 * (8 + 7));
  CHECK(counters.shared_load_wavefronts == 0);
  CHECK(counters.barriers == 16);
  CHECK(counters.tma_instructions == 1 + 2 * 5);
  CHECK(counters.tma_bytes == (192 + 2 * 5 * 112) * 256);
  // 9 are initialized, 11 are told of bytes; the producer waits 10 times; 12 warps wait for Q and
  // for each K and V; 3 warpgroups arrive for each
  CHECK(counters.mbarrier_operations == 9 + 11 + 10 + 12 * (1 + 2 * 5) + 3 * 2 * 5);
  CHECK(counters.global_store_sectors == 2048);
}

TEST_CASE("a scale that is not positive is an error in one line") {
  refuses_scales_that_are_not_positive(KERNEL);
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL, 288); }

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

KernelBreak own(RoleBreak flag) { return static_cast<KernelBreak>(flag); }

TEST_CASE("breaks of the roles") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, own(EMPTY_COUNT), simt::HazardKind::kWaitWrongPhase);
  is_reported_as(KERNEL, own(NO_EMPTY_WAIT), simt::HazardKind::kOverwriteWhileRead);
  is_reported_as(KERNEL, own(FULL_FOR_EMPTY), simt::HazardKind::kDeadlock);
  is_reported_as(KERNEL, own(KEEP_REGISTERS), simt::HazardKind::kDeadlock);
}

}  // namespace
