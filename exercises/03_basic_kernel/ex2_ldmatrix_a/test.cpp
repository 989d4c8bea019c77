#include <doctest/doctest.h>

#include <ldmatrix_a.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Fragments;

// load(A_rmem, A_smem) by one warp.
template <int MMAS_D, class Load>
static Fragments run(Load load) {
  const auto matrix = exercise::labelled_matrix(16, MMAS_D * 16);
  Fragments loaded(MMAS_D * 4);
  loaded.report = exercise::run_block(32, matrix.size() * 2, [&] {
    exercise::fill_shared(dynamic_smem(), matrix);
    uint32_t A_rmem[MMAS_D][4];
    load(A_rmem, dynamic_smem());
    loaded.keep(A_rmem[0]);
  });
  return loaded;
}

// The same with address(lane), and `step` bytes from tile to tile.
template <int MMAS_D, class Address>
static Fragments with(uint32_t step, Address address) {
  return run<MMAS_D>([&](uint32_t(&A_rmem)[MMAS_D][4], uint32_t A_smem) {
    for (int i = 0; i < MMAS_D; ++i)
      ldmatrix_x4(A_rmem[i], A_smem + address(static_cast<uint32_t>(lane_index())) + i * step);
  });
}

template <int MMAS_D>
static void check_A() {
  constexpr uint32_t ROW = MMAS_D * 32;
  Fragments expected(MMAS_D * 4);
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < MMAS_D * 4; ++r) {
      const uint32_t row = r % 2 * 8 + lane / 4, column = r / 2 * 8 + lane % 4 * 2;
      const uint32_t low = row * MMAS_D * 16 + column;
      expected.values[lane * expected.registers + r] = low | (low + 1) << 16;
    }
  }
  const auto right = [](uint32_t lane) { return lane % 16 * ROW + lane / 16 * 16; };
  const Fragments loaded = run<MMAS_D>([](uint32_t(&A_rmem)[MMAS_D][4], uint32_t A_smem) {
    ex03::load_fragments_A(A_rmem, A_smem);
  });
  exercise::check_fragments(
      {"row", "column", MMAS_D * 16}, loaded, expected,
      {{"right-before-down",
        with<MMAS_D>(
            32, [](uint32_t lane) { return (lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 16; }),
        "registers 1 and 2 are exchanged: matrix 1 is below matrix 0, not to the right of it, so "
        "lanes 8-15 give rows 8-15 and lanes 16-31 the columns to the right"},
       {"address-of-received",
        with<MMAS_D>(32, [](uint32_t lane) { return lane / 4 * ROW + lane % 4 * 4; }),
        "each lane gave the address of what it receives. It should give the start of a row, and "
        "ldmatrix hands the parts out"},
       {"halves-in-elements",
        with<MMAS_D>(32, [](uint32_t lane) { return lane % 16 * ROW + lane / 16 * 8; }),
        "lanes 16-31 went 8 bytes to the right; 8 elements are 16 bytes"},
       {"row-in-elements",
        with<MMAS_D>(32, [](uint32_t lane) { return lane % 16 * ROW / 2 + lane / 16 * 16; }),
        "a row was taken for as many bytes as it has elements. An element has 2"},
       {"tiles-packed",
        with<MMAS_D>(512, [](uint32_t lane) { return lane % 16 * 32 + lane / 16 * 16; }),
        "each tile was taken as a separate 512 bytes with rows of 32; A_smem is one matrix, its "
        "rows are ROW_BYTES apart, and the next tile begins 32 bytes further right"},
       {"tiles-packed",
        with<MMAS_D>(32, [](uint32_t lane) { return lane % 16 * 32 + lane / 16 * 16; }),
        "the rows were taken to be 32 bytes apart, as if the matrix were one tile wide. A row of "
        "it has ROW_BYTES"},
       {"tiles-packed", with<MMAS_D>(512, right),
        "the tiles were taken to be 512 bytes apart, one after the other. They are side by side in "
        "each row, 32 bytes apart"},
       {"half-after-eight-lanes",
        with<MMAS_D>(32, [](uint32_t lane) { return lane % 16 * ROW + lane / 8 % 2 * 16; }),
        "lanes 8-15 and 24-31 went to the right. The first 16 lanes give 16 rows, and the next 16 "
        "the same rows, further right: lane / 16"},
       {"half-after-eight-lanes",
        with<MMAS_D>(32, [](uint32_t lane) { return lane % 16 * ROW + lane / 8 * 16; }),
        "the lanes went to the right after each 8. The first 16 lanes give 16 rows, and the next "
        "16 the same rows, further right: lane / 16"},
       {"step-down", with<MMAS_D>(16 * ROW, right),
        "each step went 16 rows down. The tiles are side by side, 32 bytes apart"},
       {"right-half-forgotten", with<MMAS_D>(32, [](uint32_t lane) { return lane % 16 * ROW; }),
        "lanes 16-31 gave the addresses of lanes 0-15 again, so registers 2 and 3 repeat 0 and 1. "
        "They hold the columns to the right"},
       {"half-too-far",
        with<MMAS_D>(32, [](uint32_t lane) { return lane % 16 * ROW + lane / 16 * 32; }),
        "lanes 16-31 went 16 elements to the right. A half is 8 of them, 16 bytes"},
       {"four-side-by-side",
        with<MMAS_D>(32, [](uint32_t lane) { return lane % 8 * ROW + lane / 8 * 16; }),
        "the four matrices were taken side by side from rows 0-7. They are a square, two of them "
        "in rows 8-15"},
       {"two-lanes-a-row",
        with<MMAS_D>(32, [](uint32_t lane) { return lane / 2 * ROW + lane % 2 * 16; }),
        "neighbouring lanes gave the two halves of one row. Lanes 8 i to 8 i + 7 give the rows of "
        "matrix i"},
       {"row-and-chunk-exchanged",
        with<MMAS_D>(32, [](uint32_t lane) { return lane / 16 * ROW + lane % 16 * 16; }),
        "lane % 16 counted chunks and lane / 16 rows. It should be the other way round"},
       {"lane-for-row", with<MMAS_D>(32, [](uint32_t lane) { return lane * ROW + lane / 16 * 16; }),
        "lanes 16-31 went on to rows 16-31, which do not exist. They give rows 0-15 again"},
       {"lane-for-row", with<MMAS_D>(32, [](uint32_t lane) { return lane * ROW; }),
        "lanes 16-31 went on to rows 16-31, which do not exist. They give rows 0-15 again, further "
        "right"},
       {"step-forgotten", with<MMAS_D>(0, right),
        "every tile is the first one. The next begins 16 elements, 32 bytes, further right"},
       {"step-in-elements", with<MMAS_D>(16, right),
        "the second tile begins 16 bytes after the first; 16 elements are 32 bytes"}});
}

TEST_CASE("one tile of 16 columns") { check_A<1>(); }
TEST_CASE("four tiles side by side") { check_A<4>(); }
