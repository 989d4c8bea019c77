#include <doctest/doctest.h>

#include <algorithm>
#include <swizzle.hpp>

#include "common/simt/traffic.hpp"
#include "exercises/support/warp.hpp"

// Formulas that people write, for any width.
static uint32_t by_half_lines(uint32_t offset, uint32_t row_bytes) {
  const uint32_t row = offset / row_bytes % 8;
  return row_bytes == 16 ? offset : offset ^ row / std::max(64 / row_bytes, 1u) << 4;
}
static uint32_t by_row(uint32_t offset, uint32_t row_bytes) {
  return offset ^ offset / row_bytes % 8 << 4;
}
static uint32_t by_row_in_row(uint32_t offset, uint32_t row_bytes) {
  return offset ^ offset / row_bytes % (std::min(row_bytes, 128u) / 16) << 4;
}
static uint32_t by_line(uint32_t offset, uint32_t row_bytes) {
  return offset ^ offset / std::max(row_bytes, 128u) << 4;
}
static uint32_t by_chunk_number(uint32_t offset, uint32_t row_bytes) {
  return offset ^ offset / std::max(row_bytes, 128u) % (std::min(row_bytes, 128u) / 16);
}

template <uint32_t ROW_BYTES>
static void check_swizzle() {
  constexpr uint32_t ROWS = 64, CHUNKS = ROWS * ROW_BYTES / 16;
  std::vector<uint32_t> place;  // of each chunk
  for (uint32_t chunk = 0; chunk < CHUNKS; ++chunk)
    place.push_back(emulator::ex04::swizzle<ROW_BYTES>(chunk * 16));

  // The first thing that does not hold, and the first conflict.
  std::string message;
  std::vector<int> owner(CHUNKS, -1);
  for (uint32_t chunk = 0; chunk < CHUNKS && message.empty(); ++chunk) {
    const uint32_t at = place[chunk], row = chunk * 16 / ROW_BYTES;
    const std::string what = "offset " + std::to_string(chunk * 16) + " (row " +
                             std::to_string(row) + ") is kept at " + std::to_string(at);
    if (at % 16) {
      message = what + ", which is no multiple of 16";
    } else if (at / ROW_BYTES != row) {
      message = what + ", in row " + std::to_string(at / ROW_BYTES) + "; a chunk stays in its row";
    } else if (owner[at / 16] >= 0) {
      message = what + ", and so is offset " + std::to_string(owner[at / 16] * 16);
    } else {
      owner[at / 16] = static_cast<int>(chunk);
    }
  }
  bool conflict = false;
  for (uint32_t chunk = 0; chunk < CHUNKS && !conflict; ++chunk) {
    const uint32_t row = chunk * 16 / ROW_BYTES, in_row = chunk % (ROW_BYTES / 16);
    if (row % 8) continue;
    uint32_t addresses[8];
    for (uint32_t i = 0; i < 8; ++i) addresses[i] = place[chunk + i * ROW_BYTES / 16];
    const int wavefronts = fa::simt::matrix_wavefronts(addresses);
    conflict = wavefronts != 1;
    if (conflict) {
      if (!message.empty()) message += "\n";
      message += "chunk " + std::to_string(in_row) + " of rows " + std::to_string(row) + " to " +
                 std::to_string(row + 7) + " takes " + std::to_string(wavefronts) +
                 " wavefronts, expected 1\n" + exercise::bank_map(addresses);
    }
  }

  const auto is = [&](uint32_t (*formula)(uint32_t, uint32_t)) {
    for (uint32_t chunk = 0; chunk < CHUNKS; ++chunk)
      if (place[chunk] != formula(chunk * 16, ROW_BYTES)) return false;
    return true;
  };
  exercise::check(
      message.empty(), "rows of " + std::to_string(ROW_BYTES) + " bytes: " + message,
      {{"half-lines", is(by_half_lines),
        "rows are counted in units of 64 bytes; at 32 bytes a row the term is row / 2, which XORs "
        "the bit of the row's own number into the address: two rows swap places and the conflict "
        "stays; a line has 128 bytes"},
       {"row-number-at-every-width", is(by_row),
        "row % 8 was XORed at every width; a row of less than 128 bytes has fewer than 8 chunks, "
        "and the term reaches into the bits of the row"},
       {"row-for-line", is(by_row_in_row),
        "the term grows from row to row, but rows that share a line of 128 bytes do not collide; "
        "it should grow from line to line"},
       {"remainder-forgotten", is(by_line),
        "the term grows without end and moves chunks to other rows; take it modulo the chunks of a "
        "row, at most 8"},
       {"chunks-for-bytes", is(by_chunk_number),
        "the term was XORed into the lowest bits, the bytes within a chunk; the number of the "
        "chunk "
        "begins at bit 4"}});
}

TEST_CASE("rows of 128 bytes") { check_swizzle<128>(); }
TEST_CASE("rows of 256 bytes") { check_swizzle<256>(); }
TEST_CASE("rows of 64 bytes") { check_swizzle<64>(); }
TEST_CASE("rows of 32 bytes") { check_swizzle<32>(); }
TEST_CASE("rows of 16 bytes") { check_swizzle<16>(); }
