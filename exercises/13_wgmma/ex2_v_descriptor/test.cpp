#include <doctest/doctest.h>

#include <v_descriptor.hpp>

#include "exercises/support/descriptors.hpp"

using exercise::Changes;
using namespace emulator;
using emulator::ex13::Tile;
using fa::fp16;

// The right descriptor, and each mistake as a change to it.
static uint64_t descriptor_of(const Changes& is, const Tile& tile, uint32_t key, uint32_t column) {
  const uint32_t panel = tile.page_keys * 128, panel_of_tile = tile.keys * 128;
  const uint32_t page = tile.page_keys * tile.head_dim * 2;
  const bool one_row = is("page-of-one-panel") || is("key-not-reduced");
  const uint32_t line = one_row ? key : key % tile.page_keys;
  uint32_t address = is("address-forgotten") ? 0 : tile.smem;
  if (!is("page-of-one-panel"))
    address += key / tile.page_keys *
               (is("page-elements") ? page / 2
                : is("of-tile")     ? tile.head_dim / 64 * panel_of_tile
                                    : page);
  address += is("step-of-k")       ? line / 16 * 32
             : is("elements")      ? line * 64
             : is("key-forgotten") ? 0
             : is("key-for-step")  ? line * 2048
             : is("row-of-head")   ? line * tile.head_dim * 2
                                   : line * 128;
  address += is("panels-of-tile")        ? column / 64 * panel_of_tile
             : is("window-in-the-line")  ? column * 2
             : is("window-forgotten")    ? 0
             : is("panel-elements")      ? column / 64 * panel / 2
             : is("panel-of-eight-keys") ? column / 64 * 1024
                                         : column / 64 * panel;
  uint32_t leading = is("panel-of-tile")       ? panel_of_tile
                     : is("sixteen")           ? 16
                     : is("in-elements")       ? panel / 2
                     : is("one-line")          ? 128
                     : is("leading-of-a-page") ? page
                     : is("eight-lines")       ? 1024
                                               : panel;
  uint32_t stride = is("stride-of-one-row")        ? 128
                    : is("stride-of-sixteen-rows") ? 2048
                    : is("eight-in-elements")      ? 512
                    : is("of-panel")               ? panel
                    : is("eight-of-head")          ? 16 * tile.head_dim
                                                   : 1024;
  if (is("way-to-start")) address = tile.smem + ((address - tile.smem) >> 4);
  if (is("distances") || is("all")) leading >>= 4, stride >>= 4;
  if (is("all")) address >>= 4;
  return wgmma_descriptor(address, leading, stride,
                          !is("swizzle-forgotten") ? Swizzle::bytes_128 : Swizzle::none);
}

static const exercise::Table MISTAKES(R"(
numbers-of-k: sixteen; step-of-k sixteen
  these are the numbers of K's descriptor, K-major: a swizzled K-major operand has no other panel.
  Here the leading distance is that from a panel to the next
step-of-k
  16 keys further on was taken as 32 bytes, as 16 columns of K are. 16 keys are 16 lines
distances-exchanged: eight-lines of-panel
  the two distances are exchanged: the leading one is from panel to panel, the stride from 8 keys
  to the next 8
pages-forgotten: page-of-one-panel panels-of-tile panel-of-tile; page-of-one-panel panel-of-tile;
    page-of-one-panel panels-of-tile; panels-of-tile; panels-of-tile panel-of-tile; panel-of-tile
  the tile was taken as one piece. Panels are page_keys lines apart. After a page's first panel come
  its other panels, then the next page
panel-of-all-keys: of-tile panels-of-tile panel-of-tile; of-tile panels-of-tile; of-tile
    panel-of-tile; of-tile
  a panel was given the lines of all keys, as in the lesson. Here a panel has page_keys lines, and
  the pages are closer together, too
page-of-one-panel
  the next page was placed directly after the keys of a panel. The other panels of this page come
  first, head_dim / 64 in all
key-not-reduced
  the pages before the key were added, and all keys before it, too. Count what is left over in its
  page
key-forgotten
  the key inside its page is missing: 16 keys further on is 16 lines further on
rows-of-the-head: row-of-head; row-of-head one-line; row-of-head window-in-the-line one-line;
    row-of-head window-in-the-line one-line eight-of-head; row-of-head eight-of-head
  the way to the key is that of global memory, head_dim columns a key. In a panel a key has a line
  of 128 bytes
window-forgotten
  the column is missing: the window begins in panel column / 64
window-in-the-line
  the column was added inside the line. A line has 64 columns, and the others are in other panels
panels-side-by-side: one-line; window-in-the-line one-line
  the next panel was taken to begin 128 bytes further on. All keys of the page come before it
leading-of-a-page
  the leading distance is that of a whole page. It should be that from a panel to the next
elements-for-bytes: elements; page-elements; panel-elements; in-elements; eight-in-elements;
    in-elements eight-in-elements; panel-elements in-elements; page-elements panel-elements
    in-elements; page-elements elements panel-elements; page-elements elements panel-elements
    in-elements eight-in-elements
  a line, a panel or a page was measured in elements. A line of 64 of them has 128 bytes
key-for-step
  the key was taken as the number of a step of 16. It counts keys, a line of 128 bytes each
address-forgotten
  the tile's address is missing: the start is an address in shared memory, and not counted from
  the tile
panel-of-eight-keys
  the window's panel was taken to begin 8 lines further on. All keys of the page come before it
tile-of-the-lesson: page-of-one-panel window-forgotten panel-of-tile
  this is a tile of one box, and all its columns are multiplied. Here are pages, and a window
stride-of-one-row
  the stride is that of one line. It should be the one from 8 keys to the next 8
stride-of-sixteen-rows
  the stride is that of 16 keys, all that one instruction takes. It should be the one from 8 keys to
  the next 8
shifted-twice: distances; way-to-start; all
  wgmma_descriptor takes bytes, as advance_descriptor does, and shifts them by itself
swizzle-forgotten
  the descriptor says no swizzle, but the tile is swizzled
)");

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

// Returns what is wrong, in words; empty if nothing is.
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
  for (const exercise::Row& row : MISTAKES) {
    std::string all;
    for_each_window<COLUMNS>(c, [&](int key, int column) {
      all += text(descriptor_of(row.changes, c.tile(at), static_cast<uint32_t>(key),
                                static_cast<uint32_t>(column)));
    });
    looks.push_back({row.name, all, row.explanation});
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
static std::string findings(const Case& c, const Changes& is) {
  std::string all;
  for_each_window<COLUMNS>(c, [&](int key, int column) {
    if (!all.empty()) return;
    const auto read = read_window<COLUMNS>(c, [&](uint32_t smem) {
      return descriptor_of(is, c.tile(smem), static_cast<uint32_t>(key),
                           static_cast<uint32_t>(column));
    });
    all = findings<COLUMNS>(c, key, column, read);
  });
  return all;
}
TEST_CASE("the descriptors") {
  const auto all = [](const Changes& is) {
    const std::string found = findings<128>({96, 32, 128}, is);
    return found.empty() ? findings<64>({32, 16, 256}, is) : found;
  };
  CHECK(all({}) == "");
  for (const exercise::Row& row : MISTAKES) {
    CAPTURE(row.name);
    CHECK(all(row.changes) != "");
  }
}
