#include <doctest/doctest.h>

#include "attention.hpp"
#include "chapter.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch03::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

TEST_CASE("every barrier and every wait is needed, and its absence is reported") {
  every_synchronization_is_needed(KERNEL, 7);
}

TEST_CASE("counts what Nsight Compute counted") {
  counts_what_nsight_counted(KERNEL, {.ldmatrix = 8256,
                                      .shuffles = 512,
                                      .barriers = 144,
                                      .load_wavefronts = 133120,
                                      .shared_bytes = 32768});
}

// 128 query rows per block halve the number of blocks, so K and V are copied half as often.
TEST_CASE("counts what Nsight Compute counted at 128 query rows a block") {
  const KernelBuild build{[](const ForwardArgs& args) {
    emulator::ch03::launch_attention<128, 128, 64>(args, emulator::NoBreaks{});
  }};
  Kernel large = KERNEL;
  large.emulator = &build;
  const simt::Counters counters = count(large);
  CHECK(counters.ldmatrix_instructions == 4160);
  CHECK(counters.shared_load_wavefronts == 67584);
  CHECK(counters.shared_load_wavefronts_ideal == 67584 - 59136);
  CHECK(counters.mma_instructions == 8192);
  CHECK(counters.cp_async_instructions == 576);
  CHECK(counters.global_load_sectors == 9216);
  CHECK(counters.global_store_sectors == 2048);
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL); }

TEST_CASE("breaks of the synchronization") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kReadBeforeBarrier);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kBarrierDivergence);
}

}  // namespace
