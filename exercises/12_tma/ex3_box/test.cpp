#include <doctest/doctest.h>

#include <box.hpp>

#include "common/error.hpp"
#include "exercises/support/warp.hpp"

using exercise::Changes;
using namespace emulator;
using namespace emulator::ex12;

// One copy to be made.
struct Case {
  Shape shape;
  int block_kv, sequence, head, kv_tile;

  uint32_t tile_bytes() const { return static_cast<uint32_t>(block_kv * shape.head_dim * 2); }
  int64_t elements() const { return shape.batch * shape.len * shape.heads * shape.head_dim; }
};

// The content of shared memory after a copy, by rows of the tile, or the reason why there was none.
struct Seen {
  std::vector<uint16_t> tile;  // labels, where element i of K is i + 1, no element is 0
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

static const exercise::Table MISTAKES(R"(
heads-flattened: heads-flat; heads-flat-as-bhld; heads-flat-in-sequence
  heads and positions are one dimension of rows. The next row in memory is the next head's, so that
  head and row need separate dimensions
sequences-flattened
  all sequences are one long one, so that the last tile of a sequence ends with rows of the next.
  The engine writes zeros only past the end of a dimension
sequences-among-heads: batch-in-heads
  batch * heads is one dimension, as in the lesson. Here the step from a sequence to the next is not
  heads times that from a head to the next
sequences-among-heads: batch-in-heads-by-sequence
  batch * heads is one dimension with the step from one sequence to the next. The step from one head
  to the next is head_dim, so that they need separate dimensions
length-rounded-up
  there are more rows than the sequence has (are they rounded up to whole tiles?), so the engine
  does not know where it ends. The size is len
strides-in-elements: in-elements
  the strides are in elements. They have to be in bytes, two for a bf16
strides-in-elements: panel-in-elements
  the panel's stride is 64 bytes. It should be 64 columns, two bytes for a bf16
strides-of-bhld
  these strides are those of [batch, heads, len, head_dim]. Here a row has all heads side by side
panel-and-head-swapped: panel-for-head; head-for-panel
  panel and head are exchanged: a panel is 64 columns further on, a head is head_dim
head-and-sequence-swapped
  head and sequence are exchanged in the coordinates, which must have the order of the map's
  dimensions
row-and-head-swapped
  row and head are exchanged in the coordinates, which must have the order of the map's dimensions
tiles-for-rows
  the coordinate is the tile's number. It should be that of the first row: kv_tile * block_kv
box-behind-the-end
  the box is past the end of the map, where the engine writes zeros. The tile's first row was given
  in elements or bytes, or as another coordinate than the row's
head-in-the-column
  the head was added to the column. It has a separate coordinate, and the column is 0 in each panel
panels-interleaved
  the box has the panels of a row next to each other. In shared memory all rows of panel 0 come
  first, so that in the map rows come before panels
panels-to-one-place
  each panel was copied to the same place. Panel 1 is block_kv * 128 bytes after panel 0
first-panel-twice
  both copies are of panel 0. The second has the next coordinate, or 64 columns more
panels-side-by-side
  panel 1 was copied 128 bytes after panel 0. All rows of panel 0 come first: block_kv * 128 bytes
head-of-one-panel
  the step from a head to the next is 64 columns. It should be head_dim, all panels of a head
panel-of-shared-memory
  the step from a panel to the next is that of shared memory. In K it is 64 columns
sequence-of-one-head
  the step from a sequence to the next has no heads in it: len * heads * head_dim
one-panel
  the box has one panel, so that the other panel of a head of 128 columns is never copied
row-too-long
  the box's row is a whole row of the head. With this swizzle it has 128 bytes, 64 columns, and 128
  columns are two panels
all-heads-in-the-box
  the box has all heads. A copy brings one of them, so its size in that dimension is 1
not-swizzled
  the map says no swizzle, and the tile is read swizzled
)");

// The right map and copy, and each mistake as a change to them.
static Seen run(const Case& c, const Changes& is) {
  const auto [batch, len, heads, dim] = c.shape;
  const int panels = static_cast<int>(dim / 64), rows = c.block_kv;
  const int64_t unit = is("in-elements") ? 1 : 2;
  int64_t row = heads * dim, panel = 64, head = dim, sequence = len * heads * dim;
  if (is("strides-of-bhld")) row = dim, head = len * dim;
  if (is("panel-for-head")) panel = dim, head = 64;
  if (is("panel-in-elements")) panel = 32;
  if (is("head-of-one-panel")) head = 64;
  if (is("panel-of-shared-memory")) panel = rows * 64;
  if (is("sequence-of-one-head")) sequence = len * dim;
  int64_t num_rows = len, num_heads = heads, num_sequences = batch;
  int x = 0, y = c.kv_tile * rows, z = 0, w = c.head, v = c.sequence;
  const int length = static_cast<int>(len), of_heads = static_cast<int>(heads);
  if (is("heads-flat")) {
    num_rows = batch * len * heads, num_heads = num_sequences = 1, row = dim, w = v = 0;
    y = (c.sequence * length + y) * of_heads + c.head;
  } else if (is("heads-flat-as-bhld")) {
    num_rows = batch * len * heads, num_heads = num_sequences = 1, row = dim, w = v = 0;
    y = (c.sequence * of_heads + c.head) * length + y;
  } else if (is("heads-flat-in-sequence")) {
    num_rows = len * heads, num_heads = 1, row = dim, w = 0;
    y = y * of_heads + c.head;
  } else if (is("sequences-flattened")) {
    num_rows = batch * len, num_sequences = 1, v = 0;
    y += c.sequence * length;
  } else if (is("batch-in-heads") || is("batch-in-heads-by-sequence")) {
    if (is("batch-in-heads-by-sequence")) head = sequence;
    num_heads = batch * heads, num_sequences = 1, v = 0;
    w += c.sequence * of_heads;
  } else if (is("length-rounded-up")) {
    num_rows = ceil_div(length, rows) * rows;
  }
  if (is("tiles-for-rows")) y = c.kv_tile;
  if (is("head-for-panel")) std::swap(z, w);
  if (is("head-and-sequence-swapped")) std::swap(w, v);
  if (is("row-and-head-swapped")) std::swap(y, w);
  if (is("box-behind-the-end")) y *= static_cast<int>(row) * 2;
  if (is("head-in-the-column")) x = c.head * static_cast<int>(dim);
  const bool is_long = is("row-too-long");
  const int columns = is_long ? static_cast<int>(dim) : 64;  // lambdas cannot hold the names above
  const bool by_panel = is.any("panels-to-one-place", "first-panel-twice", "panels-side-by-side");
  const int panels_in_box = is_long || by_panel || is("one-panel") ? 1 : panels;
  const int heads_in_box = is("all-heads-in-the-box") ? of_heads : 1;
  const auto swizzle = is("not-swizzled") ? Swizzle::none : Swizzle::bytes_128;
  return run(
      c,
      [&](const bf16* K) {
        if (is("panels-interleaved")) {
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
        if (is("panels-interleaved")) std::swap(y, z);
        for (int copy = 0; copy < (by_panel ? panels : 1); ++copy) {
          const int apart = is("panels-to-one-place")   ? 0
                            : is("panels-side-by-side") ? 128
                                                        : rows * 128;
          tma_load_5d(smem + copy * apart, map, x, y, z + (is("first-panel-twice") ? 0 : copy), w,
                      v, full);
        }
      });
}

static std::string shown(const Seen& seen) {
  if (!seen.refused.empty()) return "refused";
  return exercise::hazard_kinds(seen.report) + exercise::bytes(seen.tile);
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

  const auto looks =
      exercise::looks(MISTAKES, [&](const Changes& is) { return shown(run(c, is)); });
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
