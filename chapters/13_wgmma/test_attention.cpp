#include <doctest/doctest.h>

#include <vector>

#include "chapter.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch13::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

// mbarrier_init and its fence, 2 block_sync, 3 waits, mbarrier_arrive_expect_tx; 2 wgmma_fence,
// 2 wgmma_wait
TEST_CASE("every barrier, wait, fence and expect_tx is needed, and its absence is reported") {
  every_synchronization_is_needed(KERNEL, 12);
}

TEST_CASE("one warpgroup agrees with float64, too") {
  with_options(KERNEL, {1}, agrees_on_random_shapes);
}

TEST_CASE("counts what Nsight Compute counted") {
  const simt::Counters counters = count(KERNEL);
  CHECK(counters.ldmatrix_instructions == 0);
  CHECK(counters.mma_instructions == 0);
  // 4 tiles of 128 keys, 2 warpgroups of 4 warps: 8 for S, 8 for O
  CHECK(counters.wgmma_instructions == 4 * 8 * (8 + 8));
  CHECK(counters.shared_load_wavefronts == 0);
  CHECK(counters.barriers == 8 * (1 + 4));
  CHECK(counters.tma_instructions == 1 + 2 * 4);
  CHECK(counters.tma_bytes == (128 + 2 * 512) * 256);
  // 5 are initialized, 9 are told of bytes, 8 warps wait for Q and for each K and V
  CHECK(counters.mbarrier_operations == 5 + 9 + 8 * (1 + 2 * 4));
  CHECK(counters.global_store_sectors == 2048);
}

TEST_CASE("a scale that is not positive is an error in one line") {
  refuses_scales_that_are_not_positive(KERNEL);
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL); }

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

KernelBreak own(WgmmaBreak flag) { return static_cast<KernelBreak>(flag); }

TEST_CASE("breaks of wgmma") {
  is_reported_as(KERNEL, own(NO_WGMMA_WAIT), simt::HazardKind::kRegistersInFlight);
  is_finite_and_wrong(KERNEL, own(K_DESCRIPTOR_FOR_V), {1, 1, 64, 128, 128});
  is_harmless(KERNEL, own(K_DESCRIPTOR_FOR_V), {1, 1, 64, 128, 64});  // one panel, so no next one
}

TEST_CASE("V's panels 16 bytes apart: columns 64 to 119 are columns 8 to 63 again") {
  const Problem problem = random_problem({1, 1, 70, 300, 128}, Dtype::bf16, 6);
  std::vector<float> o(problem.shape.q_elements());
  forward_on_emulator(KERNEL, problem, o, {}, {.breaks = K_DESCRIPTOR_FOR_V});
  for (size_t row = 0; row < 70; ++row)
    for (size_t column = 64; column < 120; ++column)
      CHECK(o[row * 128 + column] == o[row * 128 + column - 56]);
}

TEST_CASE("breaks of the synchronization") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kOverwriteWhileRead);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kDeadlock);
}

}  // namespace
