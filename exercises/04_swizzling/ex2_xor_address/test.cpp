#include <doctest/doctest.h>

#include <xor_address.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Fragments;

constexpr uint32_t ROW_BYTES = 256, BEGIN = 80;

static uint32_t swizzle(uint32_t offset) { return offset ^ offset / ROW_BYTES % 8 * 16; }

template <class Load>
static Fragments run(Load load) {
  const auto matrix = exercise::labelled_matrix(16, ROW_BYTES / 2);
  Fragments loaded(32);
  loaded.report = exercise::run_block(32, BEGIN + matrix.size() * 2, [&] {
    exercise::fill_shared(dynamic_smem() + BEGIN, matrix, 32, swizzle);
    uint32_t A_rmem[8][4];
    load(A_rmem, dynamic_smem() + BEGIN);
    loaded.keep(A_rmem[0]);
  });
  return loaded;
}

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  uint32_t address(uint32_t smem, uint32_t column) const {
    const uint32_t lane = lane_index();
    const uint32_t down = is("address-of-received") ? lane / 4
                          : is("right-before-down") ? lane / 16 * 8 + lane % 8
                                                    : lane % 16;
    const uint32_t half = is("address-of-received")  ? lane % 4 * 4
                          : is("right-before-down")  ? lane / 8 % 2 * 16
                          : is("halves-in-elements") ? lane / 16 * 8
                          : is("half-forgotten")     ? 0
                                                     : lane / 16 * 16;
    if (is("step-in-elements")) column /= 2;
    if (is("step-in-tiles")) column /= 32;
    if (is("step-forgotten")) column = 0;
    const bool half_later = is.any("half-after-xor", "half-before-xor");
    uint32_t offset = down * ROW_BYTES + (half_later ? 0 : half);
    if (is("column-inside")) offset += column;
    if (is("of-address")) offset += smem;
    if (!is("unswizzled")) offset = swizzle(offset);
    if (is("begin-subtracted")) offset -= smem;
    if (is("half-before-xor")) offset += half;
    if (is("address-xored")) offset += smem;
    if (!is("column-inside"))
      offset = is("added") ? offset + column : is("or-for-xor") ? offset | column : offset ^ column;
    if (is("half-after-xor")) offset += half;
    return offset + (is("begin-inside") || is("address-xored") ? 0 : smem);
  }
  Fragments fragments() const {
    return run([&](uint32_t(&A_rmem)[8][4], uint32_t A_smem) {
      for (uint32_t i = 0; i < 8; ++i) ldmatrix_x4(A_rmem[i], address(A_smem, i * 32));
    });
  }
};

static const exercise::Table MISTAKES(R"(
not-swizzled: unswizzled added
  the tile was read row by row: swizzle was never called
swizzle-without-row: unswizzled added
  swizzle saw an offset without its row, so every row was read as if it were row 0. Give it the
  whole offset within the tile
plus-for-xor: added
  the column was added to the swizzled offset, and carries into bits that the swizzle has set.
  swizzle(lane + column) is swizzle(lane) ^ column
or-for-xor
  the column was ORed into the swizzled offset. A bit that both have must become 0: XOR
address-xored
  the column was XORed into an address (+ binds before ^, so without parentheses too). That works
  while the tile begins at a multiple of 256, and here it does not: XOR the offset, then add where
  the tile begins
address-swizzled: of-address {begin-inside,begin-subtracted} {,column-inside}; of-address begin-inside added
  swizzle saw an address. Where the tile begins is no part of the offset, and the bits that number
  row and chunk are elsewhere
address-swizzled: of-address {,column-inside}
  swizzle saw an address, and where the tile begins was added once more. The start is no part of the
  offset: swizzle the offset, then add the start
half-added-later: half-after-xor {,added,column-inside}; half-before-xor
  the half of the tile, lane / 16 chunks, was added to the swizzled offset. It belongs inside
  swizzle, or is XORed
half-forgotten
  lanes 16-31 gave the addresses of lanes 0-15 again
halves-in-elements
  lanes 16-31 went 8 bytes to the right. 8 elements are 16 bytes
step-in-elements
  the tiles are 16 bytes apart. 16 elements are 32 bytes
step-in-tiles
  the number of the tile was XORed. The column is 32 bytes for each tile
step-forgotten
  every tile is the first one
address-of-received
  each lane gave the address of what it receives. It should give the start of a row, and ldmatrix
  hands the parts out
right-before-down
  registers 1 and 2 are exchanged: matrix 1 is below matrix 0, not to the right of it, so lanes 8-15
  give rows 8-15 and lanes 16-31 the columns to the right
)");

TEST_CASE("eight tiles side by side") {
  Fragments expected(32);
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 32; ++r) {
      const uint32_t row = r % 2 * 8 + lane / 4, column = r / 2 * 8 + lane % 4 * 2;
      const uint32_t low = row * ROW_BYTES / 2 + column;
      expected.values[lane * 32 + r] = low | (low + 1) << 16;
    }
  }
  int calls = 0;  // in all lanes
  const Fragments loaded = run([&](uint32_t(&A_rmem)[8][4], uint32_t A_smem) {
    ex04::load_fragments_A(A_rmem, A_smem, [&](uint32_t offset) {
      ++calls;
      return swizzle(offset);
    });
  });
  std::vector<exercise::FragmentsMistake> mistakes;
  for (const exercise::Row& row : MISTAKES) {
    mistakes.push_back({row.name, Way{row.changes}.fragments(), row.explanation});
    // Which of two equal results it is, is told by the calls of swizzle.
    if (row.name == (calls > 0 ? "not-swizzled" : "swizzle-without-row"))
      mistakes.back().fragments.values.clear();
  }
  exercise::check_fragments({"row", "column", ROW_BYTES / 2}, loaded, expected, mistakes);
  exercise::check(calls <= 32,
                  "each lane called swizzle " + std::to_string(calls / 32) +
                      " times; the fragments need it once",
                  {{"swizzle-in-the-loop", calls == 8 * 32,
                    "right, but swizzle runs again for each of 8 tiles along d, in the hottest "
                    "loop. Call it before the loop, and XOR the column in"}});
}
