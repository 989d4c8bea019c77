#include <doctest/doctest.h>

#include <box.hpp>

#include "common/error.hpp"
#include "exercises/support/warp.hpp"

using namespace emulator;
using namespace emulator::ex12;

// One copy to be made.
struct Case {
  Shape shape;
  int block_kv, sequence, head, kv_tile;

  uint32_t tile_bytes() const { return static_cast<uint32_t>(block_kv * shape.head_dim * 2); }
  int64_t elements() const { return shape.batch * shape.len * shape.heads * shape.head_dim; }
};

// What shared memory holds after a copy, row by row of the tile; or why there was none.
struct Seen {
  std::vector<uint16_t> tile;  // labels: element i of K is i + 1, no element is 0
  fa::simt::Report report;
  std::string refused;
};

// map(K) makes the tensor map, load(smem, map, full) copies.
template <class Map, class Load>
static Seen run(const Case& c, Map make_map, Load load) {
  const int columns = static_cast<int>(c.shape.head_dim);
  fa::simt::Buffer<bf16> K(static_cast<size_t>(c.elements()), "K");
  for (size_t i = 0; i < K.size(); ++i) K[i].bits = static_cast<uint16_t>(i + 1);
  Seen seen;
  seen.tile.assign(static_cast<size_t>(c.block_kv * columns), exercise::UNWRITTEN);
  try {
    const TensorMap map = make_map(K.data());
    seen.report = exercise::run_block(32, c.tile_bytes() + 8, [&] {
      const uint32_t smem = dynamic_smem(), full = smem + c.tile_bytes();
      if (thread_index() == 0) {
        mbarrier_init(full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(full, c.tile_bytes());
        load(smem, map, full);
      }
      block_sync();
      mbarrier_wait(full, 0);
      for (int row = thread_index(); row < c.block_kv; row += 32)
        for (int column = 0; column < columns; ++column) {
          const int dense = (column / 64 * c.block_kv + row) * 128 + column % 64 * 2;
          seen.tile[row * columns + column] =
              load_shared<uint16_t>(smem + fa::swizzled(Swizzle::bytes_128, dense));
        }
    });
  } catch (const fa::InputError& error) {
    seen.refused = error.what();
  }
  return seen;
}

static std::vector<uint16_t> right_tile(const Case& c) {
  const Shape& s = c.shape;
  std::vector<uint16_t> tile;
  for (int64_t row = c.kv_tile * c.block_kv; row < (c.kv_tile + 1) * c.block_kv; ++row)
    for (int64_t column = 0; column < s.head_dim; ++column) {
      const int64_t at = ((c.sequence * s.len + row) * s.heads + c.head) * s.head_dim + column;
      tile.push_back(row < s.len ? static_cast<uint16_t>(at + 1) : 0);
    }
  return tile;
}

// The map and the copy as people write them: right as it stands here, and each mistake is a change.
struct Way {
  enum Stride {
    kRight,
    kInElements,
    kPanelInElements,
    kOfBhld,
    kPanelForHead,
    kHeadOfOnePanel,
    kPanelOfTile,
    kSequenceOfOneHead
  } stride = kRight;
  enum Rows {
    kOwn,
    kHeadsFlat,
    kHeadsFlatAsBhld,
    kHeadsFlatInSequence,
    kSequencesFlat,
    kBatchInHeads,
    kBatchInHeadsBySequence,
    kRoundedUp
  } rows = kOwn;
  enum At {
    kFirstRow,
    kTile,
    kHeadForPanel,
    kHeadForSequence,
    kHeadForRow,
    kBytes,
    kHeadInColumn
  } at = kFirstRow;
  enum Box { kWhole, kOnePanel, kLongRow, kAllHeads } box = kWhole;
  bool swizzle = true;
  bool panels_first = false;  // of a row, then the rows
  // One copy for each panel: to one place, of panel 0 again, or 128 bytes apart.
  enum Copies { kOne, kSamePlace, kSamePanel, kSideBySide } copies = kOne;
};

static Seen run(const Case& c, const Way& way) {
  const auto [batch, len, heads, dim] = c.shape;
  const int panels = static_cast<int>(dim / 64), rows = c.block_kv;
  const int64_t unit = way.stride == Way::kInElements ? 1 : 2;
  int64_t row = heads * dim, panel = 64, head = dim, sequence = len * heads * dim;
  if (way.stride == Way::kOfBhld) row = dim, head = len * dim;
  if (way.stride == Way::kPanelForHead) panel = dim, head = 64;
  if (way.stride == Way::kPanelInElements) panel = 32;
  if (way.stride == Way::kHeadOfOnePanel) head = 64;
  if (way.stride == Way::kPanelOfTile) panel = rows * 64;
  if (way.stride == Way::kSequenceOfOneHead) sequence = len * dim;
  int64_t num_rows = len, num_heads = heads, num_sequences = batch;
  int x = 0, y = c.kv_tile * rows, z = 0, w = c.head, v = c.sequence;
  const int length = static_cast<int>(len), of_heads = static_cast<int>(heads);
  if (way.rows == Way::kHeadsFlat) {
    num_rows = batch * len * heads, num_heads = num_sequences = 1, row = dim, w = v = 0;
    y = (c.sequence * length + y) * of_heads + c.head;
  } else if (way.rows == Way::kHeadsFlatAsBhld) {
    num_rows = batch * len * heads, num_heads = num_sequences = 1, row = dim, w = v = 0;
    y = (c.sequence * of_heads + c.head) * length + y;
  } else if (way.rows == Way::kHeadsFlatInSequence) {
    num_rows = len * heads, num_heads = 1, row = dim, w = 0;
    y = y * of_heads + c.head;
  } else if (way.rows == Way::kSequencesFlat) {
    num_rows = batch * len, num_sequences = 1, v = 0;
    y += c.sequence * length;
  } else if (way.rows == Way::kBatchInHeads || way.rows == Way::kBatchInHeadsBySequence) {
    if (way.rows == Way::kBatchInHeadsBySequence) head = sequence;
    num_heads = batch * heads, num_sequences = 1, v = 0;
    w += c.sequence * of_heads;
  } else if (way.rows == Way::kRoundedUp) {
    num_rows = ceil_div(length, rows) * rows;
  }
  if (way.at == Way::kTile) y = c.kv_tile;
  if (way.at == Way::kHeadForPanel) std::swap(z, w);
  if (way.at == Way::kHeadForSequence) std::swap(w, v);
  if (way.at == Way::kHeadForRow) std::swap(y, w);
  if (way.at == Way::kBytes) y *= static_cast<int>(row) * 2;
  if (way.at == Way::kHeadInColumn) x = c.head * static_cast<int>(dim);
  const bool is_long = way.box == Way::kLongRow;
  const int columns = is_long ? static_cast<int>(dim) : 64;  // lambdas cannot hold the names above
  const int panels_in_box =
      is_long || way.box == Way::kOnePanel || way.copies != Way::kOne ? 1 : panels;
  const int heads_in_box = way.box == Way::kAllHeads ? of_heads : 1;
  const auto swizzle = way.swizzle ? Swizzle::bytes_128 : Swizzle::none;
  return run(
      c,
      [&](const bf16* K) {
        if (way.panels_first) {
          return make_tensor_map(K, {64, panels, num_rows, num_heads, num_sequences},
                                 {panel * unit, row * unit, head * unit, sequence * unit},
                                 {64, panels, rows, 1, 1}, swizzle);
        }
        return make_tensor_map(K,
                               {columns, num_rows, is_long ? 1 : panels, num_heads, num_sequences},
                               {row * unit, panel * unit, head * unit, sequence * unit},
                               {columns, rows, panels_in_box, heads_in_box, 1}, swizzle);
      },
      [&](uint32_t smem, const TensorMap& map, uint32_t full) {
        if (way.panels_first) std::swap(y, z);
        for (int copy = 0; copy < (way.copies == Way::kOne ? 1 : panels); ++copy) {
          const int apart = way.copies == Way::kSamePlace    ? 0
                            : way.copies == Way::kSideBySide ? 128
                                                             : rows * 128;
          tma_load_5d(smem + copy * apart, map, x, y,
                      z + (way.copies == Way::kSamePanel ? 0 : copy), w, v, full);
        }
      });
}

static std::string shown(const Seen& seen) {
  if (!seen.refused.empty()) return "refused";
  std::string all = exercise::hazard_kinds(seen.report);
  for (const uint16_t label : seen.tile) all += std::to_string(label) + " ";
  return all;
}

static std::string words(const Case& c, uint16_t label) {
  if (label == 0) return "zero";
  if (label == exercise::UNWRITTEN || label > c.elements()) return "NaN: nothing came";
  const int64_t at = label - 1, d = c.shape.head_dim, h = c.shape.heads, l = c.shape.len;
  return "K[" + std::to_string(at / d / h / l) + "][" + std::to_string(at / d / h % l) + "][" +
         std::to_string(at / d % h) + "][" + std::to_string(at % d) + "]";
}

static void check_copy(const Case& c) {
  const Seen seen = run(
      c, [&](const bf16* K) { return map_of_K(K, c.shape, c.block_kv); },
      [&](uint32_t smem, const TensorMap& map, uint32_t full) {
        load_K(smem, map, c.shape, c.block_kv, c.sequence, c.head, c.kv_tile, full);
      });
  const std::vector<uint16_t> right = right_tile(c);
  size_t wrong = 0, first = 0;
  for (size_t i = right.size(); i-- > 0;)
    if (seen.tile[i] != right[i]) ++wrong, first = i;
  const int columns = static_cast<int>(c.shape.head_dim);
  std::string message = "K [" + std::to_string(c.shape.batch) + ", " + std::to_string(c.shape.len) +
                        ", " + std::to_string(c.shape.heads) + ", " + std::to_string(columns) +
                        "], sequence " + std::to_string(c.sequence) + ", head " +
                        std::to_string(c.head) + ", tile " + std::to_string(c.kv_tile) + " of " +
                        std::to_string(c.block_kv) + " rows\n" + seen.refused +
                        exercise::hazards(seen.report);
  if (wrong && seen.refused.empty())
    message += "row " + std::to_string(first / columns) + ", column " +
               std::to_string(first % columns) + " of the tile: expected " +
               words(c, right[first]) + ", got " + words(c, seen.tile[first]) + "\n" +
               std::to_string(wrong) + " of " + std::to_string(right.size()) +
               " elements are wrong";

  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    looks.push_back({name, shown(run(c, way)), explanation});
  };
  const char* const flat =
      "heads and positions are one dimension of rows: the next row in memory is the next head's; "
      "head and row need dimensions of their own";
  mistake("heads-flattened", flat, {.rows = Way::kHeadsFlat});
  mistake("heads-flattened", flat, {.rows = Way::kHeadsFlatAsBhld});
  mistake("heads-flattened", flat, {.rows = Way::kHeadsFlatInSequence});
  mistake("sequences-flattened",
          "all sequences are one long one, so the last tile of one ends with rows of the next; the "
          "engine writes zeros only behind the end of a dimension",
          {.rows = Way::kSequencesFlat});
  mistake("sequences-among-heads",
          "batch * heads is one dimension, as in the lesson; here the step from a sequence to the "
          "next is not heads times that from a head to the next",
          {.rows = Way::kBatchInHeads});
  mistake("sequences-among-heads",
          "batch * heads is one dimension with the step from a sequence to the next; from head to "
          "head it is head_dim, so they need dimensions of their own",
          {.rows = Way::kBatchInHeadsBySequence});
  mistake("length-rounded-up",
          "there are more rows than the sequence has (are they rounded up to whole tiles?), so the "
          "engine does not know where it ends; the size is len",
          {.rows = Way::kRoundedUp});
  mistake("strides-in-elements", "the strides are in elements; they are in bytes, two for a bf16",
          {.stride = Way::kInElements});
  mistake("strides-in-elements",
          "the panel's stride is 64 bytes; it is 64 columns, two bytes for a bf16",
          {.stride = Way::kPanelInElements});
  mistake("strides-of-bhld",
          "these strides are those of [batch, heads, len, head_dim]; here a row has all heads side "
          "by side",
          {.stride = Way::kOfBhld});
  const char* const swapped =
      "panel and head are exchanged: a panel is 64 columns further on, a head is head_dim";
  mistake("panel-and-head-swapped", swapped, {.stride = Way::kPanelForHead});
  mistake("panel-and-head-swapped", swapped, {.at = Way::kHeadForPanel});
  mistake("head-and-sequence-swapped",
          "head and sequence are exchanged in the coordinates; they stand in the order of the "
          "map's dimensions",
          {.at = Way::kHeadForSequence});
  mistake("row-and-head-swapped",
          "row and head are exchanged in the coordinates; they stand in the order of the map's "
          "dimensions",
          {.at = Way::kHeadForRow});
  mistake("tiles-for-rows",
          "the coordinate is the tile's number; it is the first row's: kv_tile * block_kv",
          {.at = Way::kTile});
  mistake("box-behind-the-end",
          "the box lies behind the end of the map, and zeros come: the tile's first row was given "
          "in elements or bytes, or as another coordinate than the row's",
          {.at = Way::kBytes});
  mistake(
      "head-in-the-column",
      "the head is in the column, and has a coordinate of its own; the column is 0 in each panel",
      {.at = Way::kHeadInColumn});
  mistake("panels-interleaved",
          "the box has the panels of a row one behind the other; in shared memory all rows of "
          "panel 0 come first, so in the map rows stand before panels",
          {.panels_first = true});
  mistake(
      "panels-to-one-place",
      "each panel was copied to the same place; panel 1 lies block_kv * 128 bytes behind panel 0",
      {.copies = Way::kSamePlace});
  mistake("first-panel-twice",
          "both copies are of panel 0; the second has the next coordinate, or 64 columns more",
          {.copies = Way::kSamePanel});
  mistake("panels-side-by-side",
          "panel 1 was copied 128 bytes behind panel 0; before it come all rows of panel 0: "
          "block_kv * 128",
          {.copies = Way::kSideBySide});
  mistake("head-of-one-panel",
          "the step from a head to the next is 64 columns; it is head_dim, all its panels",
          {.stride = Way::kHeadOfOnePanel});
  mistake("panel-of-shared-memory",
          "the step from a panel to the next is that of shared memory; in K it is 64 columns",
          {.stride = Way::kPanelOfTile});
  mistake("sequence-of-one-head",
          "the step from a sequence to the next has no heads in it: len * heads * head_dim",
          {.stride = Way::kSequenceOfOneHead});
  mistake("one-panel", "the box has one panel; of a head of 128 columns the other never comes",
          {.box = Way::kOnePanel});
  mistake("row-too-long",
          "the box's row is a whole row of the head; with this swizzle it has 128 bytes, 64 "
          "columns, and 128 columns are two panels",
          {.box = Way::kLongRow});
  mistake("all-heads-in-the-box",
          "the box has all heads; a copy brings one of them, so its size in that dimension is 1",
          {.box = Way::kAllHeads});
  mistake("not-swizzled", "the map says no swizzle, and the tile is read swizzled",
          {.swizzle = false});
  exercise::check_shown(wrong == 0 && seen.refused.empty() && seen.report.hazards.empty(), message,
                        shown(seen), looks);
}

static void check_all(const Shape& shape, int block_kv) {
  for (int sequence = 0; sequence < shape.batch; ++sequence)
    for (int head = 0; head < shape.heads; ++head)
      for (int tile = 0; tile * block_kv < shape.len; ++tile)
        check_copy({shape, block_kv, sequence, head, tile});
}

TEST_CASE("one sequence, one head") { check_all({1, 16, 1, 64}, 8); }
TEST_CASE("two heads, a ragged end") { check_all({1, 13, 2, 64}, 8); }
TEST_CASE("two panels") { check_all({1, 16, 2, 128}, 8); }
TEST_CASE("two sequences, three heads, a ragged end") { check_all({2, 21, 3, 128}, 16); }
