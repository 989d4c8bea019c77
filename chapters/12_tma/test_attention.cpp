#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "chapter.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch12::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

// mbarrier_init and its fence, 2 block_sync, 3 waits, mbarrier_arrive_expect_tx
TEST_CASE("every barrier, wait, fence and expect_tx is needed, and its absence is reported") {
  every_synchronization_is_needed(KERNEL, 8);
}

TEST_CASE("counts what Nsight Compute counted") {
  const simt::Counters counters = count(KERNEL);
  // 11 tiles of 48 keys by chapter 08's rules, which are 528 keys for 512
  CHECK(counters.ldmatrix_instructions == 4 * 11 * (8 * (2 + 3) + 3 * 8));
  CHECK(counters.mma_instructions == 8448);
  CHECK(counters.cp_async_instructions == 0);
  CHECK(counters.shuffle_instructions == 4 * (8 + 8));
  CHECK(counters.barriers == 4 * (1 + 11));
  CHECK(counters.shared_load_wavefronts == 11264);
  CHECK(counters.shared_load_wavefronts_ideal == 11264);
  CHECK(counters.tma_instructions == 1 + 2 * 11);
  CHECK(counters.tma_bytes == (128 + 2 * 11 * 48) * 256);
  // 4 are initialized, 23 are told of bytes, 4 warps wait for Q and for each K and V
  CHECK(counters.mbarrier_operations == 4 + 23 + 4 * (1 + 2 * 11));
  CHECK(counters.global_store_sectors == 2048);
}

TEST_CASE("a scale that is not positive is an error in one line") {
  refuses_scales_that_are_not_positive(KERNEL);
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL); }

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

KernelBreak own(TmaBreak flag) { return static_cast<KernelBreak>(flag); }

TEST_CASE("breaks of the synchronization") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kOverwriteWhileRead);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kDeadlock);
  is_reported_as(KERNEL, own(EXPECT_TOO_LITTLE), simt::HazardKind::kTransactionMismatch);
  is_reported_as(KERNEL, own(WRONG_PARITY), simt::HazardKind::kWaitWrongPhase);
  is_reported_as(KERNEL, own(NO_INIT_FENCE), simt::HazardKind::kMissingProxyFence);
}

// Returns the first head's rows when the second head's V is NaN.
std::vector<float> beside_nan(uint32_t breaks, int64_t len_kv) {
  const Shape shape{1, 2, 70, len_kv, 64};
  Problem problem = random_problem(shape, Dtype::bf16, 3);
  std::fill(problem.v.begin() + shape.kv * shape.dim, problem.v.end(),
            std::numeric_limits<float>::quiet_NaN());
  std::vector<float> o(problem.shape.q_elements());
  const simt::Report report =
      forward_on_emulator(KERNEL, problem, o, {}, {.breaks = breaks}).report;
  CHECK(report.hazards.empty());
  o.resize(static_cast<size_t>(shape.q * shape.dim));
  return o;
}
bool finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

TEST_CASE("a head ends where it ends: its neighbour's NaN stays outside, but for a flat map") {
  CHECK(finite(beside_nan(0, 150)));
  CHECK(!finite(beside_nan(FLAT_MAP, 150)));
  CHECK(finite(beside_nan(FLAT_MAP, 256)));  // whole tiles
  is_harmless(KERNEL, own(FLAT_MAP), {1, 2, 64, 150, 64});
}

}  // namespace
