#include <doctest/doctest.h>

#include <algorithm>
#include <swizzle.hpp>

#include "common/simt/traffic.hpp"
#include "exercises/support/warp.hpp"

// Formulas that people write, for any width.
static uint32_t place(const exercise::Changes& is, uint32_t offset, uint32_t row_bytes) {
  const uint32_t row = offset / row_bytes, line = offset / std::max(row_bytes, 128u);
  if (is("not-swizzled") || (is("half-lines") && row_bytes == 16)) return offset;
  const uint32_t count = is("half-lines")            ? row % 8 / std::max(64 / row_bytes, 1u)
                         : is("row-within-its-line") ? row % std::max(128 / row_bytes, 1u)
                         : is("rows")                ? row
                         : is("128")                 ? offset / 128
                                                     : line;
  const uint32_t modulo = is("of-8")                  ? 8
                          : is("of-row")              ? row_bytes / 16
                          : is("remainder-forgotten") ? ~0u
                                                      : std::min(row_bytes, 128u) / 16;
  const uint32_t term = count % modulo << is.integer("bit", 4);
  return is("added") ? offset + term : offset ^ term;
}

static const exercise::Table MISTAKES(R"(
not-swizzled
  every chunk stays where it was, so eight rows of a column are in the same banks
half-lines: half-lines of-8
  rows are counted in units of 64 bytes, but a line has 128 bytes. With 32 bytes per row the term is
  row / 2, which XORs a bit of the row's number into the address, so that two rows swap places and
  the conflict stays
row-number-at-every-width: rows of-8
  row % 8 was XORed at every width. A row of less than 128 bytes has fewer than 8 chunks, and the
  term reaches into the bits of the row
row-for-line: rows; rows of-row
  the term grows from row to row, but rows that share a line of 128 bytes do not collide. It should
  grow from line to line
remainder-forgotten: remainder-forgotten; remainder-forgotten {128,rows}
  the term grows without end and moves chunks to other rows. Take it modulo the chunks of a row, at
  most 8
remainder-of-eight: of-8
  the number of the line was taken modulo 8 at every width. A row of less than 128 bytes has fewer
  chunks, and the term reaches into the bits of the row
two-lines-a-row: 128; 128 of-row
  offset / 128 counts lines, and a row of 256 bytes has two: the term grows by 2 from row to row and
  takes only four values. Count rows there
two-lines-a-row: 128 of-8
  offset / 128 % 8 was XORed at every width: a row of 256 bytes has two lines, so the term takes
  only four values there. A narrow one has fewer than 8 chunks
row-within-its-line
  the term is the number of the row within its line of 128 bytes. These rows do not collide, and
  lines do: divide by the rows of a line
chunks-for-bytes: bit=0; rows of-8 bit=0
  the term was XORed into the lowest bits, the bytes within a chunk. The number of the chunk begins
  at bit 4
chunks-for-bytes: bit=3
  the term was XORed one bit too low: a chunk has 8 elements, and 16 bytes
added-not-wrapped: added; added rows of-8; added rows
  the term was added, so that it carries, and a chunk leaves its row or collides with another. XOR
  it, or let the sum wrap within the row
row-padded: added rows remainder-forgotten
  each row begins 16 bytes later than it should, as with padding. There is no room for that: a chunk
  stays in its row
)");

template <uint32_t ROW_BYTES>
static void check_swizzle() {
  constexpr uint32_t ROWS = 64, CHUNKS = ROWS * ROW_BYTES / 16;
  std::vector<uint32_t> kept;  // the place of each chunk
  for (uint32_t chunk = 0; chunk < CHUNKS; ++chunk)
    kept.push_back(emulator::ex04::swizzle<ROW_BYTES>(chunk * 16));

  // The first thing that does not hold, and the first conflict.
  std::string message;
  std::vector<int> owner(CHUNKS, -1);
  for (uint32_t chunk = 0; chunk < CHUNKS && message.empty(); ++chunk) {
    const uint32_t at = kept[chunk], row = chunk * 16 / ROW_BYTES;
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
    for (uint32_t i = 0; i < 8; ++i) addresses[i] = kept[chunk + i * ROW_BYTES / 16];
    const int wavefronts = fa::simt::matrix_wavefronts(addresses);
    conflict = wavefronts != 1;
    if (conflict) {
      if (!message.empty()) message += "\n";
      message += "chunk " + std::to_string(in_row) + " of rows " + std::to_string(row) + " to " +
                 std::to_string(row + 7) + " takes " + std::to_string(wavefronts) +
                 " wavefronts, expected 1\n" + exercise::bank_map(addresses);
    }
  }

  const auto shown = [](const std::vector<uint32_t>& all) {
    std::string text;
    for (const uint32_t at : all) text += std::to_string(at) + " ";
    return text;
  };
  exercise::check_shown(message.empty(),
                        "rows of " + std::to_string(ROW_BYTES) + " bytes: " + message, shown(kept),
                        exercise::looks(MISTAKES, [&](const exercise::Changes& is) {
                          std::vector<uint32_t> places;
                          for (uint32_t chunk = 0; chunk < CHUNKS; ++chunk)
                            places.push_back(place(is, chunk * 16, ROW_BYTES));
                          return shown(places);
                        }));
}

TEST_CASE("rows of 128 bytes") { check_swizzle<128>(); }
TEST_CASE("rows of 256 bytes") { check_swizzle<256>(); }
TEST_CASE("rows of 64 bytes") { check_swizzle<64>(); }
TEST_CASE("rows of 32 bytes") { check_swizzle<32>(); }
TEST_CASE("rows of 16 bytes") { check_swizzle<16>(); }
