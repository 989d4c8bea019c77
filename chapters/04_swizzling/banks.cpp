// Which banks the eight rows of one ldmatrix matrix hit, for every row width, with and without the
// remedies of this chapter. The numbers in README.md are what this prints.

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "attention.hpp"
#include "common/simt/traffic.hpp"

namespace {

constexpr uint32_t ROWS = 64;

// The worst cost of reading rows [r, r + 8) of one 16-byte column; where(row, chunk) is an address.
template <class Where>
int wavefronts(uint32_t row_bytes, Where where) {
  int worst = 0;
  for (uint32_t chunk = 0; chunk < row_bytes / 16; ++chunk)
    for (uint32_t row = 0; row < ROWS; row += 8) {
      uint32_t addresses[8];
      for (uint32_t i = 0; i < 8; ++i) addresses[i] = where(row + i, chunk);
      worst = std::max(worst, fa::simt::matrix_wavefronts(addresses));
    }
  return worst;
}

// The formula one meets most: it counts rows in half lines, 64 bytes instead of 128.
uint32_t swizzle_by_half_lines(uint32_t offset, uint32_t row_bytes) {
  const uint32_t row = offset / row_bytes % 8;
  return row_bytes == 16 ? offset : offset ^ (row / std::max(64 / row_bytes, 1u) << 4);
}

template <int ROW_BYTES>
void print_costs() {
  using emulator::ch04::swizzle;
  const auto row_major = [](uint32_t row, uint32_t chunk) { return row * ROW_BYTES + chunk * 16; };
  std::printf(
      "  %9d %10d %8d %12d %8d   ", ROW_BYTES, wavefronts(ROW_BYTES, row_major),
      wavefronts(ROW_BYTES,
                 [](uint32_t row, uint32_t chunk) { return row * (ROW_BYTES + 16) + chunk * 16; }),
      wavefronts(ROW_BYTES,
                 [&](uint32_t row, uint32_t chunk) {
                   return swizzle_by_half_lines(row_major(row, chunk), ROW_BYTES);
                 }),
      wavefronts(ROW_BYTES, [&](uint32_t row, uint32_t chunk) {
        return swizzle<ROW_BYTES>(row_major(row, chunk));
      }));
  for (uint32_t row = 0; row < 8; ++row)
    std::printf(" %u", (swizzle<ROW_BYTES>(row * ROW_BYTES) ^ (row * ROW_BYTES)) / 16);
  std::printf("\n");
}

}  // namespace

int main() {
  std::printf(
      "Wavefronts to read one 8x8 matrix; 1 is ideal.\n\n"
      "  row bytes  row-major   padded   half lines  swizzle    XOR term of rows 0 to 7\n");
  print_costs<16>();
  print_costs<32>();
  print_costs<64>();
  print_costs<128>();
  print_costs<256>();

  std::printf("\nWhere swizzle<128> keeps chunks 0 to 7 of rows 0 to 7:\n\n  banks");
  for (int bank = 0; bank < 32; bank += 4) std::printf(" %2d-%-2d", bank, bank + 3);
  std::printf("\n");
  for (uint32_t row = 0; row < 8; ++row) {
    uint32_t chunk_at[8];
    for (uint32_t chunk = 0; chunk < 8; ++chunk)
      chunk_at[emulator::ch04::swizzle<128>(row * 128 + chunk * 16) / 16 % 8] = chunk;
    std::printf("  row %u", row);
    for (const uint32_t chunk : chunk_at) std::printf("   %u  ", chunk);
    std::printf("\n");
  }
}
