#include <doctest/doctest.h>

#include <v_descriptor.hpp>

#include "exercises/support/descriptors.hpp"

using namespace emulator;
using emulator::ex13::Tile;
using fa::fp16;

// The descriptor as people write it: right as it stands here, and each mistake is a change.
struct Way {
  enum Page { kWhole, kStraightOn, kNotReduced, kPageElements, kOfTile } page = kWhole;
  enum Key { kLine, kStepOfK, kElements, kNone, kRowOfHead, kSteps } key = kLine;
  enum Column {
    kPanels,
    kPanelsOfTile,
    kInLine,
    kForgotten,
    kPanelElements,
    kEightLinesEach
  } column = kPanels;
  enum Leading {
    kPanel,
    kPanelOfTile,
    kSixteen,
    kInElements,
    kOneLine,
    kWholePage,
    kEightLines
  } leading = kPanel;
  enum Stride {
    kEight,
    kOne,
    kSixteenRows,
    kEightInElements,
    kOfPanel,
    kEightOfHead
  } stride = kEight;
  enum Twice { kNothing, kDistances, kAll, kWayToStart } shifted_before = kNothing;
  bool swizzle = true, smem = true;
};

static uint64_t descriptor_of(const Way& way, const Tile& tile, uint32_t key, uint32_t column) {
  const uint32_t panel = tile.page_keys * 128, panel_of_tile = tile.keys * 128;
  const uint32_t page = tile.page_keys * tile.head_dim * 2;
  const bool one_row = way.page == Way::kStraightOn || way.page == Way::kNotReduced;
  const uint32_t line = one_row ? key : key % tile.page_keys;
  uint32_t address = way.smem ? tile.smem : 0;
  if (way.page != Way::kStraightOn)
    address += key / tile.page_keys *
               (way.page == Way::kPageElements ? page / 2
                : way.page == Way::kOfTile     ? tile.head_dim / 64 * panel_of_tile
                                               : page);
  address += way.key == Way::kStepOfK     ? line / 16 * 32
             : way.key == Way::kElements  ? line * 64
             : way.key == Way::kNone      ? 0
             : way.key == Way::kSteps     ? line * 2048
             : way.key == Way::kRowOfHead ? line * tile.head_dim * 2
                                          : line * 128;
  address += way.column == Way::kPanelsOfTile     ? column / 64 * panel_of_tile
             : way.column == Way::kInLine         ? column * 2
             : way.column == Way::kForgotten      ? 0
             : way.column == Way::kPanelElements  ? column / 64 * panel / 2
             : way.column == Way::kEightLinesEach ? column / 64 * 1024
                                                  : column / 64 * panel;
  uint32_t leading = way.leading == Way::kPanelOfTile  ? panel_of_tile
                     : way.leading == Way::kSixteen    ? 16
                     : way.leading == Way::kInElements ? panel / 2
                     : way.leading == Way::kOneLine    ? 128
                     : way.leading == Way::kWholePage  ? page
                     : way.leading == Way::kEightLines ? 1024
                                                       : panel;
  uint32_t stride = way.stride == Way::kOne               ? 128
                    : way.stride == Way::kSixteenRows     ? 2048
                    : way.stride == Way::kEightInElements ? 512
                    : way.stride == Way::kOfPanel         ? panel
                    : way.stride == Way::kEightOfHead     ? 16 * tile.head_dim
                                                          : 1024;
  if (way.shifted_before == Way::kWayToStart) address = tile.smem + ((address - tile.smem) >> 4);
  if (way.shifted_before == Way::kDistances || way.shifted_before == Way::kAll)
    leading >>= 4, stride >>= 4;
  if (way.shifted_before == Way::kAll) address >>= 4;
  return wgmma_descriptor(address, leading, stride,
                          way.swizzle ? Swizzle::bytes_128 : Swizzle::none);
}

using Wrong = exercise::Wrong<Way>;

static std::vector<Wrong> wrong_ways() {
  using W = Way;
  return {
      {"numbers-of-k",
       "these are the numbers of K's descriptor, K-major: a swizzled K-major operand has no other "
       "panel; here the leading distance is that from a panel to the next",
       {{.leading = W::kSixteen}, {.key = W::kStepOfK, .leading = W::kSixteen}}},
      {"step-of-k",
       "16 keys further on was taken as 32 bytes, as 16 columns of K are; 16 keys are 16 lines",
       {{.key = W::kStepOfK}}},
      {"distances-exchanged",
       "the two distances are exchanged: the leading one is from panel to panel, the stride from 8 "
       "keys to the next 8",
       {{.leading = W::kEightLines, .stride = W::kOfPanel}}},
      {"pages-forgotten",
       "the tile was taken as one piece; panels are page_keys lines apart, and behind a page's "
       "first panel come its others, then the next page",
       {{.page = W::kStraightOn, .column = W::kPanelsOfTile, .leading = W::kPanelOfTile},
        {.page = W::kStraightOn, .leading = W::kPanelOfTile},
        {.page = W::kStraightOn, .column = W::kPanelsOfTile},
        {.column = W::kPanelsOfTile},
        {.column = W::kPanelsOfTile, .leading = W::kPanelOfTile},
        {.leading = W::kPanelOfTile}}},
      {"panel-of-all-keys",
       "a panel was given the lines of all keys, as in the lesson; here a panel has page_keys "
       "lines, and the pages are closer together, too",
       {{.page = W::kOfTile, .column = W::kPanelsOfTile, .leading = W::kPanelOfTile},
        {.page = W::kOfTile, .column = W::kPanelsOfTile},
        {.page = W::kOfTile, .leading = W::kPanelOfTile},
        {.page = W::kOfTile}}},
      {"page-of-one-panel",
       "behind the keys of a panel the next page was taken to begin; the other panels of this page "
       "come first, head_dim / 64 in all",
       {{.page = W::kStraightOn}}},
      {"key-not-reduced",
       "the pages before the key were added, and all keys before it, too; count what is left over "
       "in its page",
       {{.page = W::kNotReduced}}},
      {"key-forgotten",
       "the key inside its page is missing: 16 keys further on is 16 lines further on",
       {{.key = W::kNone}}},
      {"rows-of-the-head",
       "the way to the key is that of global memory, head_dim columns a key; in a panel a key has "
       "a line of 128 bytes",
       {{.key = W::kRowOfHead},
        {.key = W::kRowOfHead, .leading = W::kOneLine},
        {.key = W::kRowOfHead, .column = W::kInLine, .leading = W::kOneLine},
        {.key = W::kRowOfHead,
         .column = W::kInLine,
         .leading = W::kOneLine,
         .stride = W::kEightOfHead},
        {.key = W::kRowOfHead, .stride = W::kEightOfHead}}},
      {"window-forgotten",
       "the column is missing: the window begins in panel column / 64",
       {{.column = W::kForgotten}}},
      {"window-in-the-line",
       "the column was added inside the line; a line has 64 columns, and the others are in other "
       "panels",
       {{.column = W::kInLine}}},
      {"panels-side-by-side",
       "the next panel was taken to begin 128 bytes further on; all keys of the page come before "
       "it",
       {{.leading = W::kOneLine}, {.column = W::kInLine, .leading = W::kOneLine}}},
      {"leading-of-a-page",
       "the leading distance is that of a whole page; it is from a panel to the next",
       {{.leading = W::kWholePage}}},
      {"elements-for-bytes",
       "a line, a panel or a page was measured in elements; a line of 64 of them has 128 bytes",
       {{.key = W::kElements},
        {.page = W::kPageElements},
        {.column = W::kPanelElements},
        {.leading = W::kInElements},
        {.stride = W::kEightInElements},
        {.leading = W::kInElements, .stride = W::kEightInElements},
        {.column = W::kPanelElements, .leading = W::kInElements},
        {.page = W::kPageElements, .column = W::kPanelElements, .leading = W::kInElements},
        {.page = W::kPageElements, .key = W::kElements, .column = W::kPanelElements},
        {.page = W::kPageElements,
         .key = W::kElements,
         .column = W::kPanelElements,
         .leading = W::kInElements,
         .stride = W::kEightInElements}}},
      {"key-for-step",
       "the key was taken as the number of a step of 16; it counts keys, a line of 128 bytes each",
       {{.key = W::kSteps}}},
      {"address-forgotten",
       "the tile's address is missing: the start is an address in shared memory, and not counted "
       "from the tile",
       {{.smem = false}}},
      {"panel-of-eight-keys",
       "the window's panel was taken to begin 8 lines further on; all keys of the page come before "
       "it",
       {{.column = W::kEightLinesEach}}},
      {"tile-of-the-lesson",
       "this is a tile of one box, and all its columns are multiplied; here are pages, and a "
       "window",
       {{.page = W::kStraightOn, .column = W::kForgotten, .leading = W::kPanelOfTile}}},
      {"stride-of-one-row",
       "the stride is that of one line; it is the one from 8 keys to the next 8",
       {{.stride = W::kOne}}},
      {"stride-of-sixteen-rows",
       "the stride is that of 16 keys, all that one instruction takes; it is the one from 8 keys "
       "to the next 8",
       {{.stride = W::kSixteenRows}}},
      {"shifted-twice",
       "wgmma_descriptor takes bytes, as advance_descriptor does, and shifts them by itself",
       {{.shifted_before = W::kDistances},
        {.shifted_before = W::kWayToStart},
        {.shifted_before = W::kAll}}},
      {"swizzle-forgotten",
       "the descriptor says no swizzle, but the tile is swizzled",
       {{.swizzle = false}}},
  };
}

struct Case {
  int keys, page_keys, head_dim;
  std::string name() const {
    return std::to_string(keys) + " keys in pages of " + std::to_string(page_keys) + ", " +
           std::to_string(head_dim) + " columns";
  }
  Tile tile(uint32_t smem) const {
    return {smem, static_cast<uint32_t>(keys), static_cast<uint32_t>(page_keys),
            static_cast<uint32_t>(head_dim)};
  }
};

// A window of COLUMNS columns, and 16 keys.
template <int COLUMNS, class Descriptor>
static exercise::MatrixRead read_window(const Case& c, Descriptor descriptor) {
  fa::simt::Buffer<fp16> V(static_cast<size_t>(c.keys * c.head_dim), "V");
  exercise::label_elements(V);
  const int panels = c.head_dim / 64;
  const TensorMap map = make_tensor_map(V.data(), {64, c.keys, panels}, {c.head_dim * 2, 128},
                                        {64, c.page_keys, panels}, Swizzle::bytes_128);
  const auto load = [&](uint32_t smem, uint32_t full) {
    for (int key = 0; key < c.keys; key += c.page_keys)
      tma_load_3d(smem + key * c.head_dim * 2, map, 0, key, 0, full);
  };
  return exercise::read_through_descriptor<COLUMNS, Major::mn>(
      static_cast<uint32_t>(c.keys * c.head_dim * 2), load, descriptor);
}

// What is wrong with it, in words; empty if nothing is.
template <int COLUMNS>
static std::string findings(const Case& c, int key, int column, const exercise::MatrixRead& read) {
  int wrong = 0;
  std::string first;
  for (int k = 0; k < 16; ++k)
    for (int j = 0; j < COLUMNS; ++j) {
      const uint16_t got = read.labels[k * COLUMNS + j],
                     right = exercise::element_label(key + k, column + j, c.head_dim);
      if (got == right) continue;
      if (wrong++ == 0)
        first = "key " + std::to_string(k) + " of 16, column " + std::to_string(j) +
                " of the window: expected " + exercise::element_name("V", c.head_dim, right) +
                ", got " + exercise::element_name("V", c.head_dim, got) + "\n";
    }
  if (wrong)
    first +=
        std::to_string(wrong) + " of " + std::to_string(16 * COLUMNS) + " elements are wrong\n";
  return exercise::hazards(read.report) + first;
}

template <int COLUMNS, class Visit>
static void for_each_window(const Case& c, Visit visit) {
  for (int key = 0; key < c.keys; key += 16)
    for (int column = 0; column + COLUMNS <= c.head_dim; column += 64) visit(key, column);
}

template <int COLUMNS>
static void check_tile(const Case& c) {
  // A window of one panel needs no leading distance.
  const auto text = [](uint64_t bits) {
    return std::to_string(COLUMNS == 64 ? bits & ~(uint64_t{0x3fff} << 16) : bits) + " ";
  };
  std::string message, shown;
  uint32_t at = 0;
  for_each_window<COLUMNS>(c, [&](int key, int column) {
    uint64_t bits = 0;
    const auto read = read_window<COLUMNS>(c, [&](uint32_t smem) {
      at = smem;
      return bits = ex13::v_descriptor(c.tile(smem), static_cast<uint32_t>(key),
                                       static_cast<uint32_t>(column));
    });
    shown += text(bits);
    const std::string found = findings<COLUMNS>(c, key, column, read);
    if (found.empty() || !message.empty()) return;
    message = c.name() + "; the 16 from key " + std::to_string(key) + ", " +
              std::to_string(COLUMNS) + " columns from column " + std::to_string(column) + "\n" +
              found + exercise::descriptor_words(bits, at);
  });
  std::vector<exercise::Look> looks;
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      std::string all;
      for_each_window<COLUMNS>(c, [&](int key, int column) {
        all += text(descriptor_of(way, c.tile(at), static_cast<uint32_t>(key),
                                  static_cast<uint32_t>(column)));
      });
      looks.push_back({wrong.name, all, wrong.explanation});
    }
  exercise::check_shown(message.empty(), message, shown, looks);
}

TEST_CASE("one page, one panel") { check_tile<64>({32, 32, 64}); }
TEST_CASE("one page, all columns") { check_tile<128>({64, 64, 128}); }
TEST_CASE("half of the columns") { check_tile<128>({32, 32, 256}); }
TEST_CASE("three pages") { check_tile<128>({96, 32, 128}); }
TEST_CASE("pages, windows of one panel") { check_tile<64>({32, 16, 256}); }

// Each mistake is one for some tile, and the right bits are none.
template <int COLUMNS>
static std::string findings(const Case& c, const Way& way) {
  std::string all;
  for_each_window<COLUMNS>(c, [&](int key, int column) {
    if (!all.empty()) return;
    const auto read = read_window<COLUMNS>(c, [&](uint32_t smem) {
      return descriptor_of(way, c.tile(smem), static_cast<uint32_t>(key),
                           static_cast<uint32_t>(column));
    });
    all = findings<COLUMNS>(c, key, column, read);
  });
  return all;
}
TEST_CASE("the descriptors") {
  const auto all = [](const Way& way) {
    const std::string found = findings<128>({96, 32, 128}, way);
    return found.empty() ? findings<64>({32, 16, 256}, way) : found;
  };
  CHECK(all({}) == "");
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      CAPTURE(std::string(wrong.name));
      CHECK(all(way) != "");
    }
}
