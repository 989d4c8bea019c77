#include <doctest/doctest.h>

#include <k_descriptor.hpp>

#include "exercises/support/descriptors.hpp"

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

// The descriptor as people write it: right as it stands here, and each mistake is a change.
struct Way {
  enum Start {
    kStep,
    kInElements,
    kStepNotShifted,
    kPanelNotShifted,
    kPanelForgotten,
    kNoStepInside,
    kFirstStep,
    kPanelIsStep,
    kPanelOfEightRows,
    kPanelElements,
    kSixteenBytes,
    kLineForStep,
    kNoAddress
  } start = kStep;
  enum Stride {
    kEightLines,
    kOneLine,
    kStrideInElements,
    kSixteenLines,
    kPanel,
    kZero
  } stride = kEightLines;
  enum Code { kRight, kTwoAndThree, kReversed, kNone, kOnlyOne, kMinusOne } code = kRight;
  bool shift_start = true, shift_stride = true;  // by 4, to the right
  bool leading = false;                          // 16 bytes, as chapter 13 has it
  enum Place { kAt32, kAt16, kBoth16And32, kAt30, kIn32Bits } stride_at = kAt32;
  enum CodeAt { kAt62, kAt61, kAt60, kAt48, kUnsigned32, kSigned32 } code_at = kAt62;
  // What is taken as that of lines of 128 bytes; or a line as so many columns as it has bytes.
  bool steps_of_128 = false, panels_of_128 = false, stride_of_128 = false;
  bool bytes_for_columns = false;
};

static uint64_t descriptor_of(const Way& way, uint32_t smem, uint32_t rows, uint32_t line_bytes,
                              uint32_t step) {
  const uint32_t steps = way.steps_of_128        ? 4
                         : way.bytes_for_columns ? line_bytes / 16
                                                 : line_bytes / 32;
  const uint32_t panel_bytes = rows * (way.panels_of_128 ? 128 : line_bytes);
  const uint32_t panel = step / steps, inside = step % steps;
  uint32_t start = smem + panel * panel_bytes + inside * 32, behind = 0;
  switch (way.start) {
    case Way::kStep:
      break;
    case Way::kInElements:
      start = smem + panel * rows * line_bytes + inside * 16;
      break;
    case Way::kStepNotShifted:
      start = smem, behind = panel * rows * line_bytes + inside * 32;
      break;
    case Way::kPanelNotShifted:
      start = smem + inside * 32, behind = panel * rows * line_bytes;
      break;
      start = smem + panel * rows * line_bytes + inside;
      break;
    case Way::kPanelForgotten:
      start = smem + step * 32;
      break;
    case Way::kNoStepInside:
      start = smem + panel * rows * line_bytes;
      break;
    case Way::kFirstStep:
      start = smem;
      break;
    case Way::kPanelIsStep:
      start = smem + panel * rows * line_bytes + step * 32;
      break;
    case Way::kPanelOfEightRows:
      start = smem + panel * 8 * line_bytes + inside * 32;
      break;
    case Way::kPanelElements:
      start = smem + panel * rows * line_bytes / 2 + inside * 32;
      break;
    case Way::kLineForStep:
      start = smem + panel * rows * line_bytes + inside * line_bytes;
      break;
    case Way::kNoAddress:
      start -= smem;
      break;
    case Way::kSixteenBytes:
      start = smem + step * 16;
      break;
  }
  uint32_t stride = 8 * line_bytes;
  switch (way.stride) {
    case Way::kEightLines:
      break;
    case Way::kOneLine:
      stride = line_bytes;
      break;
    case Way::kStrideInElements:
      stride = 4 * line_bytes;
      break;
    case Way::kSixteenLines:
      stride = 16 * line_bytes;
      break;
    case Way::kPanel:
      stride = rows * line_bytes;
      break;
    case Way::kZero:
      stride = 0;
      break;
  }
  if (way.stride_of_128) stride = 1024;
  const uint32_t right = line_bytes == 128 ? 1 : line_bytes == 64 ? 2 : 3;
  const uint32_t code = way.code == Way::kTwoAndThree ? (right == 1 ? 1 : 5 - right)
                        : way.code == Way::kReversed  ? 4 - right
                        : way.code == Way::kNone      ? 0
                        : way.code == Way::kOnlyOne   ? 1
                        : way.code == Way::kMinusOne  ? right - 1
                                                      : right;
  const uint64_t stride_field = way.shift_stride ? stride >> 4 : stride;
  uint64_t bits = (way.shift_start ? start >> 4 : start) + behind;
  switch (way.stride_at) {
    case Way::kAt32:
      bits |= stride_field << 32;
      break;
    case Way::kAt16:
      bits |= stride_field << 16;
      break;
    case Way::kBoth16And32:
      bits |= stride_field << 16 | uint64_t{1} << 32;
      break;
    case Way::kAt30:
      bits |= stride_field << 30;
      break;
    case Way::kIn32Bits:
      bits |= stride_field;
      break;  // a shift by 32 of 32 bits, as x86 does it
  }
  if (way.leading) bits |= uint64_t{16 >> 4} << 16;
  switch (way.code_at) {
    case Way::kAt62:
      bits |= uint64_t{code} << 62;
      break;
    case Way::kAt61:
      bits |= uint64_t{code} << 61;
      break;
    case Way::kAt60:
      bits |= uint64_t{code} << 60;
      break;
    case Way::kAt48:
      bits |= uint64_t{code} << 48;
      break;
    case Way::kUnsigned32:
      bits |= code << 30;
      break;
    case Way::kSigned32:
      bits |= static_cast<uint64_t>(int64_t{static_cast<int32_t>(code << 30)});
      break;
  }
  return bits;
}

using Wrong = exercise::Wrong<Way>;

static std::vector<Wrong> wrong_ways() {
  using W = Way;
  return {
      {"start-not-shifted",
       "the start stands there in bytes; a descriptor has it without its last four bits: >> 4",
       {{.shift_start = false}, {.shift_start = false, .shift_stride = false}}},
      {"stride-not-shifted",
       "the distance of 8 rows stands there in bytes; a descriptor has it without its last four "
       "bits: >> 4",
       {{.shift_stride = false}}},
      {"step-not-shifted",
       "the way to the step was added in bytes to an address that has lost its last four bits; it "
       "loses them, too",
       {{.start = W::kStepNotShifted}, {.start = W::kPanelNotShifted}}},
      {"step-of-sixteen-bytes",
       "a step was taken as 16 bytes; 16 columns are 32 bytes",
       {{.start = W::kInElements}, {.start = W::kSixteenBytes}}},
      {"panel-in-elements",
       "a panel was measured in elements, two bytes each; it has rows * line_bytes bytes",
       {{.start = W::kPanelElements}}},
      {"panel-forgotten",
       "the steps go on behind the end of a line, into the next key's; behind the last step of a "
       "line comes the next panel, rows * line_bytes further on",
       {{.start = W::kPanelForgotten}}},
      {"step-inside-the-panel-forgotten",
       "the start is that of the panel; inside a line each step is 32 bytes further on (fewer than "
       "16 the shift would lose)",
       {{.start = W::kNoStepInside}}},
      {"line-for-a-step",
       "the next 16 columns were looked for in the next line; they are 32 bytes further on in the "
       "same one",
       {{.start = W::kLineForStep}}},
      {"bytes-for-columns",
       "a line was taken to have line_bytes columns; it has half as many, two bytes each, so "
       "line_bytes / 32 steps",
       {{.bytes_for_columns = true}}},
      {"address-forgotten",
       "the tile's address is missing: the start is an address in shared memory, and not counted "
       "from the tile",
       {{.start = W::kNoAddress}}},
      {"step-forgotten",
       "the start is the same for each step; 16 columns further on is 32 bytes, and after a line "
       "the next panel",
       {{.start = W::kFirstStep}}},
      {"panel-counted-twice",
       "the panel was added, and the steps before it, too; inside the panel count what is left "
       "over",
       {{.start = W::kPanelIsStep}}},
      {"panel-of-eight-rows",
       "the next panel was taken to begin after 8 lines; all keys of a panel come first",
       {{.start = W::kPanelOfEightRows}}},
      {"stride-of-one-row",
       "the stride is that from a row to the next, which wgmma knows from the swizzle; it is asked "
       "for the one from 8 rows to the next 8",
       {{.stride = W::kOneLine}}},
      {"stride-in-elements",
       "the stride counts elements; it is in bytes, two for each",
       {{.stride = W::kStrideInElements}}},
      {"stride-of-sixteen-rows",
       "the stride is that of 16 rows; a group has 8",
       {{.stride = W::kSixteenLines}}},
      {"stride-of-a-panel",
       "the stride is that of a panel, all keys; it is the one from 8 rows to the next 8",
       {{.stride = W::kPanel}}},
      {"stride-forgotten",
       "the distance of 8 rows is 0, so wgmma reads the first eight keys again and again",
       {{.stride = W::kZero}, {.stride = W::kZero, .leading = true}}},
      {"distances-exchanged",
       "the distance of 8 rows stands at bit 16, where K-major with a swizzle reads nothing; it "
       "belongs at bit 32",
       {{.stride_at = W::kAt16}, {.stride_at = W::kBoth16And32}}},
      {"fields-of-fourteen-bits",
       "the fields were put side by side; each has 14 bits and a gap of two behind it: 0, 16, 32",
       {{.stride_at = W::kAt30}}},
      {"shift-of-32-bits",
       "a number of 32 bits was shifted by 32 or more, which C++ does not define; make it a "
       "uint64_t first",
       {{.stride_at = W::kIn32Bits, .code_at = W::kUnsigned32},
        {.stride_at = W::kIn32Bits},
        {.code_at = W::kUnsigned32},
        {.code_at = W::kSigned32}}},
      {"swizzles-exchanged",
       "the numbers of the swizzles are exchanged: 1 is 128 bytes, 2 is 64, 3 is 32",
       {{.code = W::kTwoAndThree}, {.code = W::kReversed}}},
      {"swizzles-from-zero",
       "the numbers of the swizzles begin with 1, as 0 is none: 128 bytes are 1",
       {{.code = W::kMinusOne}}},
      {"swizzle-forgotten",
       "bits 62 and 63 are 0, no swizzle, but the tile is swizzled; they hold a number, and of "
       "line_bytes << 62 nothing is left",
       {{.code = W::kNone}}},
      {"swizzle-at-another-bit",
       "the swizzle belongs in bits 62 and 63, the last two",
       {{.code_at = W::kAt61}, {.code_at = W::kAt60}, {.code_at = W::kAt48}}},
      {"four-steps-a-line",
       "a line was taken to have four steps, as one of 128 bytes; it has line_bytes / 32",
       {{.steps_of_128 = true}}},
      {"stride-of-128-byte-lines",
       "the stride is 1024, that of lines of 128 bytes; eight lines are 8 * line_bytes",
       {{.stride_of_128 = true}}},
      {"panel-of-128-byte-lines",
       "a panel was taken as rows * 128 bytes; a line has line_bytes",
       {{.panels_of_128 = true}}},
      {"swizzle-of-128-always",
       "the swizzle is 1, that of 128 bytes, for each line; one of 64 bytes has 2, one of 32 has 3",
       {{.code = W::kOnlyOne}}},
      {"lines-of-128-only",
       "right for lines of 128 bytes; a line of `line_bytes` has line_bytes / 32 steps, 8 of them "
       "are the stride, a panel has rows * line_bytes, and the swizzle has another number",
       {{.steps_of_128 = true, .stride_of_128 = true},
        {.code = W::kOnlyOne, .steps_of_128 = true},
        {.code = W::kOnlyOne, .stride_of_128 = true},
        {.code = W::kOnlyOne, .steps_of_128 = true, .stride_of_128 = true},
        {.steps_of_128 = true, .panels_of_128 = true},
        {.steps_of_128 = true, .panels_of_128 = true, .stride_of_128 = true},
        {.code = W::kOnlyOne, .steps_of_128 = true, .panels_of_128 = true},
        {.code = W::kOnlyOne, .steps_of_128 = true, .panels_of_128 = true, .stride_of_128 = true}}},
  };
}

// What stands in bits 16 to 29 is not used, and tells something only if the stride is not there.
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

// What is wrong with it, in words; empty if nothing is.
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
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      std::string all;
      for (uint32_t step = 0; step < tile.steps(); ++step)
        all += std::to_string(meaning(descriptor_of(way, smem, ROWS, tile.line_bytes, step))) + " ";
      looks.push_back({wrong.name, all, wrong.explanation});
    }
  exercise::check_shown(message.empty(), message, shown, looks);
}

TEST_CASE("lines of 128 bytes, one panel") { check_tile<32>({128, 64}); }
TEST_CASE("lines of 128 bytes, two panels") { check_tile<32>({128, 128}); }
TEST_CASE("lines of 64 bytes, three panels") { check_tile<16>({64, 96}); }
TEST_CASE("lines of 32 bytes, four panels") { check_tile<64>({32, 64}); }

// Each mistake is one for some tile, and the right bits are none.
template <int ROWS>
static std::string findings(const Tile& tile, const Way& way) {
  std::string all;
  for (uint32_t step = 0; step < tile.steps() && all.empty(); ++step)
    all += findings<ROWS>(tile, step, read_step<ROWS>(tile, [&](uint32_t smem) {
                            return descriptor_of(way, smem, ROWS, tile.line_bytes, step);
                          }));
  return all;
}
TEST_CASE("the descriptors") {
  const auto all = [](const Way& way) {
    std::string found = findings<16>({64, 96}, way);
    if (found.empty()) found = findings<32>({128, 128}, way);
    return found.empty() ? findings<64>({32, 64}, way) : found;
  };
  CHECK(all({}) == "");
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      CAPTURE(std::string(wrong.name));
      CHECK(all(way) != "");
    }
}
