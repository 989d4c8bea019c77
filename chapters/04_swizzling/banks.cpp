// Prints which banks the eight rows of one ldmatrix matrix use, for every row width, with and
// without the remedies of this chapter. The numbers in README.md come from it.
//
//   ch04_banks                   the table
//   ch04_banks --layout F.json   every address and cost, widths 16 to 256 (docs/figures/README.md)

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "attention.hpp"
#include "common/cli.hpp"
#include "common/guarded_main.hpp"
#include "common/json_report.hpp"
#include "common/simt/traffic.hpp"

namespace {

constexpr uint32_t ROWS = 64;

// Returns the cost of reading rows [row, row + 8) of one 16-byte column. The function where(row,
// chunk) returns an address.
template <class Where>
int column_wavefronts(uint32_t row, uint32_t chunk, Where where) {
  uint32_t addresses[8];
  for (uint32_t i = 0; i < 8; ++i) addresses[i] = where(row + i, chunk);
  return fa::simt::matrix_wavefronts(addresses);
}

// Returns the maximum over all columns and all groups of eight rows.
template <class Where>
int wavefronts(uint32_t row_bytes, Where where) {
  int worst = 0;
  for (uint32_t chunk = 0; chunk < row_bytes / 16; ++chunk)
    for (uint32_t row = 0; row < ROWS; row += 8)
      worst = std::max(worst, column_wavefronts(row, chunk, where));
  return worst;
}

// The most common formula, which counts rows in half lines: 64 bytes instead of 128.
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

// Addresses [row][chunk] of the first eight rows, and the cost of reading each column of chunks.
template <class Where>
nlohmann::json layout(uint32_t row_bytes, Where where) {
  nlohmann::json addresses, costs;
  for (uint32_t chunk = 0; chunk < row_bytes / 16; ++chunk)
    costs.push_back(column_wavefronts(0, chunk, where));
  for (uint32_t row = 0; row < 8; ++row) {
    nlohmann::json& of_row = addresses.emplace_back();
    for (uint32_t chunk = 0; chunk < row_bytes / 16; ++chunk) of_row.push_back(where(row, chunk));
  }
  return {{"addresses", addresses}, {"wavefronts", costs}};
}

uint32_t swizzled(uint32_t offset, uint32_t row_bytes) {
  using emulator::ch04::swizzle;
  switch (row_bytes) {
    case 16:
      return swizzle<16>(offset);
    case 32:
      return swizzle<32>(offset);
    case 64:
      return swizzle<64>(offset);
    case 128:
      return swizzle<128>(offset);
    default:
      return swizzle<256>(offset);
  }
}

// Widths that are not a power of two have no swizzle here.
nlohmann::json layouts_of_widths() {
  nlohmann::json widths;
  for (uint32_t width = 16; width <= 256; width += 16) {
    const auto plain = [&](uint32_t row, uint32_t chunk) { return row * width + chunk * 16; };
    nlohmann::json orders{{"plain", layout(width, plain)}};
    orders["padded"] = layout(
        width, [&](uint32_t row, uint32_t chunk) { return row * (width + 16) + chunk * 16; });
    if (std::has_single_bit(width)) {
      orders["swizzled"] = layout(
          width, [&](uint32_t row, uint32_t chunk) { return swizzled(plain(row, chunk), width); });
      orders["half_lines"] = layout(width, [&](uint32_t row, uint32_t chunk) {
        return swizzle_by_half_lines(plain(row, chunk), width);
      });
    }
    widths.push_back({{"row_bytes", width}, {"orders", orders}});
  }
  return {{"banks", 32}, {"bank_bytes", 4}, {"chunk_bytes", 16}, {"widths", widths}};
}

void print_tables() {
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

int banks(int argc, char** argv) {
  std::string path;
  fa::Cli cli("ch04_banks", "Which banks a column of eight rows hits, for every row width.");
  cli.output_file("--layout", path, "write every address and cost to this JSON file instead");
  cli.parse(argc, argv);
  path.empty() ? print_tables() : fa::write_json(path, layouts_of_widths());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return fa::guarded_main(argc, argv, banks); }
