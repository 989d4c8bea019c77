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

// With address(A_smem, row, column), both of the lane, in bytes, and the column of the tile.
template <class Address>
static Fragments with(Address address) {
  return run([&](uint32_t(&A_rmem)[8][4], uint32_t A_smem) {
    const uint32_t row = lane_index() % 16 * ROW_BYTES, right = lane_index() / 16 * 16;
    for (uint32_t i = 0; i < 8; ++i) ldmatrix_x4(A_rmem[i], address(A_smem, row, right, i * 32));
  });
}

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
  const auto mistake = [&](const char* name, const char* explanation, auto address) {
    mistakes.push_back({name, with(address), explanation});
  };
  using u32 = uint32_t;
  const auto as_if_unswizzled = [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + row + right + column;
  };
  mistake("not-swizzled", "the tile was read row by row: swizzle was never called",
          as_if_unswizzled);
  if (calls > 0) mistakes.back().fragments.values.clear();  // it is not that
  mistake("swizzle-without-row",
          "swizzle saw an offset without its row, so every row was read as if it were row 0; give "
          "it the whole offset within the tile",
          as_if_unswizzled);
  if (calls == 0) mistakes.back().fragments.values.clear();
  mistake("plus-for-xor",
          "the column was added to the swizzled offset, and carries into bits that the swizzle has "
          "set; swizzle(lane + column) is swizzle(lane) ^ column",
          [](u32 smem, u32 row, u32 right, u32 column) {
            return smem + swizzle(row + right) + column;
          });
  mistake("or-for-xor",
          "the column was ORed into the swizzled offset; a bit that both have must become 0: XOR",
          [](u32 smem, u32 row, u32 right, u32 column) {
            return smem + (swizzle(row + right) | column);
          });
  mistake("address-xored",
          "the column was XORed into an address (+ binds before ^, so without parentheses too); "
          "that works while the tile begins at a multiple of 256, and here it does not: XOR the "
          "offset, then add where the tile begins",
          [](u32 smem, u32 row, u32 right, u32 column) {
            return (smem + swizzle(row + right)) ^ column;
          });
  const char* const swizzled_address =
      "swizzle saw an address; where the tile begins is no part of the offset, and the bits that "
      "number row and chunk are elsewhere";
  mistake("address-swizzled", swizzled_address, [](u32 smem, u32 row, u32 right, u32 column) {
    return swizzle(smem + row + right) ^ column;
  });
  mistake("address-swizzled", swizzled_address, [](u32 smem, u32 row, u32 right, u32 column) {
    return swizzle(smem + row + right) + column;
  });
  mistake("address-swizzled", swizzled_address, [](u32 smem, u32 row, u32 right, u32 column) {
    return swizzle(smem + row + right + column);
  });
  mistake("address-swizzled", swizzled_address, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + ((swizzle(smem + row + right) - smem) ^ column);
  });
  mistake("address-swizzled", swizzled_address, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + (swizzle(smem + row + right + column) - smem);
  });
  const char* const begin_twice =
      "swizzle saw an address, and where the tile begins was added once more; it is no part of the "
      "offset: swizzle the offset, then add it";
  mistake("address-swizzled", begin_twice, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + (swizzle(smem + row + right) ^ column);
  });
  mistake("address-swizzled", begin_twice, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + swizzle(smem + row + right + column);
  });
  const char* const half_added =
      "the half of the tile, lane / 16 chunks, was added to the swizzled offset; it belongs inside "
      "swizzle, or is XORed";
  mistake("half-added-later", half_added, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + (swizzle(row) ^ column) + right;
  });
  mistake("half-added-later", half_added, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + ((swizzle(row) + right) ^ column);
  });
  mistake("half-added-later", half_added, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + swizzle(row) + right + column;
  });
  mistake("half-added-later", half_added, [](u32 smem, u32 row, u32 right, u32 column) {
    return smem + swizzle(row + column) + right;
  });
  mistake("half-forgotten", "lanes 16-31 gave the addresses of lanes 0-15 again",
          [](u32 smem, u32 row, u32, u32 column) { return smem + (swizzle(row) ^ column); });
  mistake("halves-in-elements", "lanes 16-31 went 8 bytes to the right; 8 elements are 16 bytes",
          [](u32 smem, u32 row, u32 right, u32 column) {
            return smem + (swizzle(row + right / 2) ^ column);
          });
  mistake("step-in-elements", "the tiles are 16 bytes apart; 16 elements are 32 bytes",
          [](u32 smem, u32 row, u32 right, u32 column) {
            return smem + (swizzle(row + right) ^ column / 2);
          });
  mistake("step-in-tiles", "the number of the tile was XORed; the column is 32 bytes for each tile",
          [](u32 smem, u32 row, u32 right, u32 column) {
            return smem + (swizzle(row + right) ^ column / 32);
          });
  mistake("step-forgotten", "every tile is the first one",
          [](u32 smem, u32 row, u32 right, u32) { return smem + swizzle(row + right); });
  mistake("address-of-received",
          "each lane gave the address of what it receives; it should give the start of a row, and "
          "ldmatrix hands the parts out",
          [](u32 smem, u32, u32, u32 column) {
            const u32 lane = lane_index();
            return smem + (swizzle(lane / 4 * ROW_BYTES + lane % 4 * 4) ^ column);
          });
  mistake("right-before-down",
          "registers 1 and 2 are exchanged: matrix 1 is below matrix 0, not to the right of it, so "
          "lanes 8-15 give rows 8-15 and lanes 16-31 the columns to the right",
          [](u32 smem, u32, u32, u32 column) {
            const u32 lane = lane_index();
            return smem +
                   (swizzle((lane / 16 * 8 + lane % 8) * ROW_BYTES + lane / 8 % 2 * 16) ^ column);
          });
  exercise::check_fragments({"row", "column", ROW_BYTES / 2}, loaded, expected, mistakes);
  exercise::check(calls <= 32,
                  "each lane called swizzle " + std::to_string(calls / 32) +
                      " times; the fragments need it once",
                  {{"swizzle-in-the-loop", calls == 8 * 32,
                    "right, but swizzle runs again for each of 8 tiles along d, in the hottest "
                    "loop; call it before the loop, and XOR the column in"}});
}
