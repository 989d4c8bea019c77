#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include "chapter.hpp"
#include "common/kernels/test/kernel_test.hpp"

#include "attention.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch04::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

TEST_CASE("every barrier and every wait is needed, and its absence is reported") {
  every_synchronization_is_needed(KERNEL, 7);
}

TEST_CASE("counts what Nsight Compute counted") {
  counts_what_nsight_counted(KERNEL, {.ldmatrix = 8256,
                                      .shuffles = 512,
                                      .barriers = 144,
                                      .load_wavefronts = 16640,
                                      .shared_bytes = 32768});
}

// Returns the cost of reading one 8x8 matrix of a tile with rows of ROW_BYTES, with 32 banks.
template <int ROW_BYTES>
int worst_wavefronts() {
  int worst = 0;
  for (uint32_t chunk = 0; chunk < ROW_BYTES / 16; ++chunk)
    for (uint32_t first_row = 0; first_row < 16; first_row += 8) {
      int hits[8] = {};  // per group of four banks, which a chunk covers
      for (uint32_t row = first_row; row < first_row + 8; ++row)
        ++hits[emulator::ch04::swizzle<ROW_BYTES>(row * ROW_BYTES + chunk * 16) / 16 % 8];
      worst = std::max(worst, *std::max_element(hits, hits + 8));
    }
  return worst;
}

template <int ROW_BYTES>
bool is_permutation_within_rows() {
  std::set<uint32_t> places;
  for (uint32_t offset = 0; offset < 64 * ROW_BYTES; offset += 16) {
    const uint32_t place = emulator::ch04::swizzle<ROW_BYTES>(offset);
    if (place / ROW_BYTES != offset / ROW_BYTES) return false;
    places.insert(place);
  }
  return places.size() == 64 * ROW_BYTES / 16;
}

TEST_CASE("swizzle: no conflict at any row width from 16 to 256 bytes") {
  CHECK(worst_wavefronts<16>() == 1);
  CHECK(worst_wavefronts<32>() == 1);
  CHECK(worst_wavefronts<64>() == 1);
  CHECK(worst_wavefronts<128>() == 1);
  CHECK(worst_wavefronts<256>() == 1);
  CHECK(is_permutation_within_rows<16>());
  CHECK(is_permutation_within_rows<32>());
  CHECK(is_permutation_within_rows<64>());
  CHECK(is_permutation_within_rows<128>());
  CHECK(is_permutation_within_rows<256>());
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL); }

TEST_CASE("breaks of the synchronization") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kReadBeforeBarrier);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kBarrierDivergence);
}

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

}  // namespace
