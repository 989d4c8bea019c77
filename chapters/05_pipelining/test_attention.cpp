#include <doctest/doctest.h>

#include "chapter.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch05::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

TEST_CASE("every barrier and every wait is needed, and its absence is reported") {
  every_synchronization_is_needed(KERNEL, 7);
}

TEST_CASE("counts what Nsight Compute counted") {
  counts_what_nsight_counted(KERNEL, {.ldmatrix = 8256,
                                      .shuffles = 1024,
                                      .barriers = 272,
                                      .load_wavefronts = 16640,
                                      .shared_bytes = 32768});
}

TEST_CASE("three and four stages: the same answer, no hazard, more shared memory") {
  for (const int stages : {3, 4}) {
    const IntegerOption option{"--stages", 2, 4, stages, "", "stages"};
    Kernel deeper = KERNEL;
    deeper.options = {&option, 1};
    agrees_on_random_shapes(deeper);
    CHECK(count(deeper).shared_bytes_per_block == stages * 16384);
    is_reported_as(deeper, CONDITIONAL_COMMIT, simt::HazardKind::kReadBeforeWait);
  }
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL); }

TEST_CASE("breaks of the synchronization") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kReadBeforeBarrier);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kBarrierDivergence);
  is_reported_as(KERNEL, CONDITIONAL_COMMIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, WAIT_TOO_FEW, simt::HazardKind::kReadBeforeWait);
}

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

}  // namespace
