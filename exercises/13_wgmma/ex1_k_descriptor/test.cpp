#include <doctest/doctest.h>

#include <k_descriptor.hpp>

#include "exercises/support/descriptors.hpp"

using exercise::Changes;
using namespace emulator;
using fa::fp16;

struct Tile {
  uint32_t line_bytes, columns;
  int line() const { return static_cast<int>(line_bytes / 2); }
  uint32_t steps() const { return columns / 16; }
  Swizzle swizzle() const {
    return line_bytes == 128  ? Swizzle::bytes_128
           : line_bytes == 64 ? Swizzle::bytes_64
                              : Swizzle::bytes_32;
  }
};

// The right descriptor, and each mistake as a change to it.
static uint64_t descriptor_of(const Changes& is, uint32_t smem, uint32_t rows, uint32_t line_bytes,
                              uint32_t step) {
  const uint32_t steps = is("four-steps-a-line")   ? 4
                         : is("bytes-for-columns") ? line_bytes / 16
                                                   : line_bytes / 32;
  const uint32_t panel = step / steps, inside = step % steps, line = line_bytes;
  const uint32_t to_panel = panel * rows * (is("panel-of-128-byte-lines") ? 128 : line);
  const uint32_t way = is("in-elements")                       ? to_panel + inside * 16
                       : is("panel-forgotten")                 ? step * 32
                       : is("step-inside-the-panel-forgotten") ? to_panel
                       : is("step-forgotten")                  ? 0
                       : is("panel-counted-twice")             ? to_panel + step * 32
                       : is("panel-of-eight-rows")             ? panel * 8 * line + inside * 32
                       : is("panel-in-elements")               ? to_panel / 2 + inside * 32
                       : is("line-for-a-step")                 ? to_panel + inside * line
                       : is("sixteen-bytes")                   ? step * 16
                                                               : to_panel + inside * 32;
  // Bytes that are added to the start after it was shifted.
  const uint32_t late = is("step-not-shifted") ? way : is("panel-not-shifted") ? to_panel : 0;
  const uint32_t start = (is("address-forgotten") ? 0 : smem) + way - late;
  const uint32_t stride = is("stride-of-128-byte-lines") ? 1024
                          : is("stride-of-one-row")      ? line
                          : is("stride-in-elements")     ? 4 * line
                          : is("stride-of-sixteen-rows") ? 16 * line
                          : is("stride-of-a-panel")      ? rows * line
                          : is("zero")                   ? 0
                                                         : 8 * line;
  const uint32_t right = line == 128 ? 1 : line == 64 ? 2 : 3;
  const uint32_t code = is("two-and-three")           ? (right == 1 ? 1 : 5 - right)
                        : is("reversed")              ? 4 - right
                        : is("swizzle-forgotten")     ? 0
                        : is("swizzle-of-128-always") ? 1
                        : is("swizzles-from-zero")    ? right - 1
                                                      : right;
  const uint64_t stride_field = is("stride-not-shifted") ? stride : stride >> 4;
  uint64_t bits = (is("start-in-bytes") ? start : start >> 4) + late;
  bits |= is("at-16")                     ? stride_field << 16
          : is("both-16-and-32")          ? stride_field << 16 | uint64_t{1} << 32
          : is("fields-of-fourteen-bits") ? stride_field << 30
          : is("in-32-bits")              ? stride_field  // a shift by 32 of 32 bits, on x86
                                          : stride_field << 32;
  if (is("leading")) bits |= uint64_t{16 >> 4} << 16;
  if (is("unsigned-32")) return bits | code << 30;
  if (is("signed-32"))
    return bits | static_cast<uint64_t>(int64_t{static_cast<int32_t>(code << 30)});
  return bits | uint64_t{code} << (is("at-61") ? 61 : is("at-60") ? 60 : is("at-48") ? 48 : 62);
}

static const exercise::Table MISTAKES(R"(
start-not-shifted: start-in-bytes {,stride-not-shifted}
  the start is in bytes. A descriptor stores it without its last four bits: >> 4
stride-not-shifted
  the distance of 8 rows is in bytes. A descriptor stores it without its last four bits: >> 4
step-not-shifted: step-not-shifted; panel-not-shifted
  the way to the step was added in bytes to an address that has lost its last four bits. The way has
  to lose them, too
step-of-sixteen-bytes: in-elements; sixteen-bytes
  a step was taken as 16 bytes. 16 columns are 32 bytes
panel-in-elements
  a panel was measured in elements, two bytes each. It has rows * line_bytes bytes
panel-forgotten
  the steps continue past the end of a line, into the next key's line. After the last step of a line
  comes the next panel, rows * line_bytes further
step-inside-the-panel-forgotten
  the start is that of the panel. Inside a line each step is 32 bytes further on (fewer than 16 the
  shift would lose)
line-for-a-step
  the next 16 columns were looked for in the next line. They are 32 bytes further on in the same
  line
bytes-for-columns
  a line was taken to have line_bytes columns. It has half as many, two bytes each, so line_bytes /
  32 steps
address-forgotten
  the tile's address is missing: the start is an address in shared memory, and not counted from
  the tile
step-forgotten
  the start is the same for each step. 16 columns further on is 32 bytes, and after a line the next
  panel
panel-counted-twice
  the panel was added, and the steps before it, too. Inside the panel count what is left over
panel-of-eight-rows
  the next panel was taken to begin after 8 lines. All keys of a panel come first
stride-of-one-row
  the stride is that from a row to the next, which wgmma knows from the swizzle. It should be the
  one from 8 rows to the next 8
stride-in-elements
  the stride counts elements. It has to be in bytes, two for each
stride-of-sixteen-rows
  the stride is that of 16 rows. A group has 8
stride-of-a-panel
  the stride is that of a panel, all keys. It should be the one from 8 rows to the next 8
stride-forgotten: zero {,leading}
  the distance of 8 rows is 0, so wgmma reads the first eight keys again and again
distances-exchanged: at-16; both-16-and-32
  the distance of 8 rows is at bit 16, where K-major with a swizzle reads nothing. It belongs at bit
  32
fields-of-fourteen-bits
  the fields were put next to each other. Each has 14 bits and a gap of two bits after it: they
  begin at 0, 16, 32
shift-of-32-bits: in-32-bits unsigned-32; in-32-bits; unsigned-32; signed-32
  a number of 32 bits was shifted by 32 or more, which C++ does not define. Make it a uint64_t first
swizzles-exchanged: two-and-three; reversed
  the numbers of the swizzles are exchanged: 1 is 128 bytes, 2 is 64, 3 is 32
swizzles-from-zero
  the numbers of the swizzles begin with 1, as 0 is none: 128 bytes are 1
swizzle-forgotten
  bits 62 and 63 are 0, no swizzle, but the tile is swizzled. They have to hold a number, and of
  line_bytes << 62 nothing is left
swizzle-at-another-bit: at-61; at-60; at-48
  the swizzle belongs in bits 62 and 63, the last two
four-steps-a-line
  a line was taken to have four steps, as one of 128 bytes. It has line_bytes / 32
stride-of-128-byte-lines
  the stride is 1024, that of lines of 128 bytes. Eight lines are 8 * line_bytes
panel-of-128-byte-lines
  a panel was taken as rows * 128 bytes. A line has line_bytes
swizzle-of-128-always
  the swizzle is 1, that of 128 bytes, for each line. One of 64 bytes has 2, one of 32 has 3
lines-of-128-only: {,swizzle-of-128-always }four-steps-a-line stride-of-128-byte-lines;
    swizzle-of-128-always {four-steps-a-line,stride-of-128-byte-lines};
    {,swizzle-of-128-always }four-steps-a-line panel-of-128-byte-lines {,stride-of-128-byte-lines}
  right for lines of 128 bytes. A line of `line_bytes` has line_bytes / 32 steps, 8 of them are the
  stride, a panel has rows * line_bytes, and the swizzle has another number
)");

// Bits 16 to 29 are not used, and matter only if the stride is not in its place.
static uint64_t meaning(uint64_t bits) {
  return (bits >> 32 & 0x3fff) == 0 ? bits : bits & ~(uint64_t{0x3fff} << 16);
}

template <int ROWS, class Descriptor>
static exercise::MatrixRead read_step(const Tile& tile, Descriptor descriptor) {
  fa::simt::Buffer<fp16> K(ROWS * tile.columns, "K");
  exercise::label_elements(K);
  const int panels = static_cast<int>(tile.columns * 2 / tile.line_bytes);
  const TensorMap map =
      make_tensor_map(K.data(), {tile.line(), ROWS, panels}, {tile.columns * 2, tile.line_bytes},
                      {tile.line(), ROWS, panels}, tile.swizzle());
  return exercise::read_through_descriptor<ROWS, Major::k>(
      ROWS * tile.columns * 2,
      [&](uint32_t smem, uint32_t full) { tma_load_3d(smem, map, 0, 0, 0, full); }, descriptor);
}

// Returns what is wrong, in words, empty if nothing is.
template <int ROWS>
static std::string findings(const Tile& tile, uint32_t step, const exercise::MatrixRead& read) {
  const int columns = static_cast<int>(tile.columns), first_column = static_cast<int>(step) * 16;
  int wrong = 0;
  std::string first;
  for (int row = 0; row < ROWS; ++row)
    for (int k = 0; k < 16; ++k) {
      const uint16_t got = read.labels[k * ROWS + row],
                     right = exercise::element_label(row, first_column + k, columns);
      if (got == right) continue;
      if (wrong++ == 0)
        first = "key " + std::to_string(row) + ", column " + std::to_string(first_column + k) +
                ": expected " + exercise::element_name("K", columns, right) + ", got " +
                exercise::element_name("K", columns, got) + "\n";
    }
  if (wrong)
    first += std::to_string(wrong) + " of " + std::to_string(16 * ROWS) + " elements are wrong\n";
  return exercise::hazards(read.report) + first;
}

template <int ROWS>
static void check_tile(const Tile& tile) {
  std::string message, shown;
  for (uint32_t step = 0; step < tile.steps(); ++step) {
    uint64_t bits = 0;
    uint32_t at = 0;
    const auto read = read_step<ROWS>(tile, [&](uint32_t smem) {
      at = smem;
      return bits = ex13::k_descriptor(smem, ROWS, tile.line_bytes, step);
    });
    shown += std::to_string(meaning(bits)) + " ";
    const std::string found = findings<ROWS>(tile, step, read);
    if (found.empty() || !message.empty()) continue;
    message = "lines of " + std::to_string(tile.line_bytes) + " bytes, " + std::to_string(ROWS) +
              " keys, " + std::to_string(tile.columns) + " columns, step " + std::to_string(step) +
              "\n" + found + exercise::descriptor_words(bits, at);
  }
  uint32_t smem = 0;
  exercise::run_block(32, 4096, [&] { smem = dynamic_smem() + exercise::BEFORE_TILE; });
  std::vector<exercise::Look> looks;
  for (const exercise::Row& row : MISTAKES) {
    std::string all;
    for (uint32_t step = 0; step < tile.steps(); ++step)
      all +=
          std::to_string(meaning(descriptor_of(row.changes, smem, ROWS, tile.line_bytes, step))) +
          " ";
    looks.push_back({row.name, all, row.explanation});
  }
  exercise::check_shown(message.empty(), message, shown, looks);
}

TEST_CASE("lines of 128 bytes, one panel") { check_tile<32>({128, 64}); }
TEST_CASE("lines of 128 bytes, two panels") { check_tile<32>({128, 128}); }
TEST_CASE("lines of 64 bytes, three panels") { check_tile<16>({64, 96}); }
TEST_CASE("lines of 32 bytes, four panels") { check_tile<64>({32, 64}); }

// Each mistake is one for some tile, and the right bits are none.
template <int ROWS>
static std::string findings(const Tile& tile, const Changes& is) {
  std::string all;
  for (uint32_t step = 0; step < tile.steps() && all.empty(); ++step)
    all += findings<ROWS>(tile, step, read_step<ROWS>(tile, [&](uint32_t smem) {
                            return descriptor_of(is, smem, ROWS, tile.line_bytes, step);
                          }));
  return all;
}
TEST_CASE("the descriptors") {
  const auto all = [](const Changes& is) {
    std::string found = findings<16>({64, 96}, is);
    if (found.empty()) found = findings<32>({128, 128}, is);
    return found.empty() ? findings<64>({32, 64}, is) : found;
  };
  CHECK(all({}) == "");
  for (const exercise::Row& row : MISTAKES) {
    CAPTURE(row.name);
    CHECK(all(row.changes) != "");
  }
}
