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
  exercise::check_fragments(
      {"row", "column", ROW_BYTES / 2}, loaded, expected,
      {{"plus-for-xor", with([](uint32_t smem, uint32_t row, uint32_t right, uint32_t column) {
          return smem + swizzle(row + right) + column;
        }),
        "the column was added to the swizzled offset, and carries into bits that the swizzle has "
        "set; swizzle(lane + column) is swizzle(lane) ^ column"},
       {"swizzle-without-row",
        with([](uint32_t smem, uint32_t row, uint32_t right, uint32_t column) {
          return smem + row + swizzle(right) + column;
        }),
        "swizzle saw an offset without its row, so every row was read as if it were row 0; give it "
        "the whole offset within the tile"},
       {"address-xored", with([](uint32_t smem, uint32_t row, uint32_t right, uint32_t column) {
          return (smem + swizzle(row + right)) ^ column;
        }),
        "the column was XORed into an address; that works while the tile begins at a multiple of "
        "256, and here it does not: XOR the offset, then add where the tile begins"},
       {"address-swizzled", with([](uint32_t smem, uint32_t row, uint32_t right, uint32_t column) {
          return swizzle(smem + row + right) ^ column;
        }),
        "swizzle saw an address; where the tile begins is no part of the offset, and the bits that "
        "number row and chunk are elsewhere"}});
  exercise::check(calls <= 32,
                  "each lane called swizzle " + std::to_string(calls / 32) +
                      " times; the fragments need it once",
                  {{"swizzle-in-the-loop", calls == 8 * 32,
                    "right, but swizzle runs again for each of 8 tiles along d, in the hottest "
                    "loop; call it before the loop, and XOR the column in"}});
}
