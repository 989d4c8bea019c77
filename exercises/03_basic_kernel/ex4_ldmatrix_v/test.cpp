#include <doctest/doctest.h>

#include <ldmatrix_v.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Fragments;

// load(V_rmem, V_smem) by one warp, from a tile of 16 keys.
template <int MMAS_D, class Load>
static Fragments run(Load load) {
  const auto matrix = exercise::labelled_matrix(16, MMAS_D * 8);
  Fragments loaded(MMAS_D * 2);
  loaded.report = exercise::run_block(32, matrix.size() * 2, [&] {
    exercise::fill_shared(dynamic_smem(), matrix);
    uint32_t V_rmem[MMAS_D][2];
    load(V_rmem, dynamic_smem());
    loaded.keep(V_rmem[0]);
  });
  return loaded;
}

template <int MMAS_D, class Address>
static Fragments with(bool trans, uint32_t step, Address address) {
  return run<MMAS_D>([&](uint32_t(&V_rmem)[MMAS_D][2], uint32_t V_smem) {
    const uint32_t lane_offset = address(static_cast<uint32_t>(lane_index()));
    for (int i = 0; i < MMAS_D; ++i) {
      if (trans) {
        ldmatrix_x2_trans(V_rmem[i], V_smem + lane_offset + i * step);
      } else {
        ldmatrix_x2(V_rmem[i], V_smem + lane_offset + i * step);
      }
    }
  });
}

template <int MMAS_D>
static void check_V() {
  constexpr uint32_t ROW = MMAS_D * 16;
  Fragments expected(MMAS_D * 2);
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < MMAS_D * 2; ++r) {
      const uint32_t key = r % 2 * 8 + lane % 4 * 2, column = r / 2 * 8 + lane / 4;
      const uint32_t low = key * MMAS_D * 8 + column;
      expected.values[lane * expected.registers + r] = low | (low + MMAS_D * 8) << 16;
    }
  }
  const auto right = [](uint32_t lane) { return lane % 16 * ROW; };
  const auto of_k = [](uint32_t lane) { return lane % 8 * ROW + lane / 8 % 2 * 16; };
  const char* const received =
      "each lane gave the address of what it receives. It should give the start of a row, and "
      "ldmatrix hands the parts out";
  const Fragments loaded = run<MMAS_D>([](uint32_t(&V_rmem)[MMAS_D][2], uint32_t V_smem) {
    ex03::load_fragments_V(V_rmem, V_smem);
  });
  exercise::check_fragments(
      {"key", "d", MMAS_D * 8, "V_rmem", 2}, loaded, expected,
      {{"no-trans", with<MMAS_D>(false, 16, right),
        "V was loaded without .trans. The sum runs over keys, so that two neighbouring keys must "
        "share a register, and they are two rows: .trans"},
       {"addresses-of-k",
        with<MMAS_D>(true, 16, [](uint32_t lane) { return lane % 8 * ROW + lane / 8 % 2 * 16; }),
        "lanes 8-15 gave keys 0-7 again, further right, as for K. The second half of operand B is "
        "keys 8-15 of the same columns"},
       {"addresses-of-columns",
        with<MMAS_D>(true, 16, [](uint32_t lane) { return lane % 8 * 2 + lane / 8 % 2 * 8 * ROW; }),
        "the lanes gave addresses of columns. With .trans, too, a lane gives the address of a row "
        "of 16 bytes"},
       {"addresses-of-columns", with<MMAS_D>(true, 16, [](uint32_t lane) { return lane % 16 * 2; }),
        "the lanes gave addresses of columns. With .trans, too, a lane gives the address of a row "
        "of 16 bytes"},
       {"addresses-of-columns",
        with<MMAS_D>(true, 8 * ROW, [](uint32_t lane) { return lane % 16 * 2; }),
        "the lanes gave addresses of columns, and the steps went down. With .trans, too, a lane "
        "gives the address of a row of 16 bytes, and a step is 8 columns to the right"},
       {"addresses-of-columns",
        with<MMAS_D>(true, 16 * ROW, [](uint32_t lane) { return lane % 16 * 2; }),
        "the lanes gave addresses of columns, and the steps went down. With .trans, too, a lane "
        "gives the address of a row of 16 bytes, and a step is 8 columns to the right"},
       {"loader-of-k", with<MMAS_D>(false, 16, of_k),
        "this is the loader of K. For V the second matrix is the next 8 keys of the same columns, "
        "and V needs .trans, because two neighbouring keys must share a register"},
       {"loader-of-k", with<MMAS_D>(false, 32, of_k),
        "this is the loader of K. For V the second matrix is the next 8 keys of the same columns, "
        "V needs .trans, because two neighbouring keys must share a register, and a step is 8 "
        "columns"},
       {"loader-of-k",
        with<MMAS_D>(false, 32,
                     [](uint32_t lane) { return lane % 8 * 2 * ROW + lane / 8 % 2 * 16; }),
        "this is the loader of K with its ROW_BYTES. For V a row is MMAS_D * 8 elements, the "
        "second matrix is the next 8 keys of the same columns, and V needs .trans, because two "
        "neighbouring keys must share a register"},
       {"addresses-of-k", with<MMAS_D>(true, 32, of_k),
        "lanes 8-15 gave keys 0-7 again, further right, and each step went 16 columns on, as for "
        "K. The second half of operand B is keys 8-15 of the same columns, and a step is 8 "
        "columns"},
       {"eight-rows-twice", with<MMAS_D>(true, 16, [](uint32_t lane) { return lane % 8 * ROW; }),
        "lanes 8-15 gave the addresses of lanes 0-7 again, so both registers hold keys 0-7. The "
        "second is keys 8-15"},
       {"address-of-received",
        with<MMAS_D>(true, 16, [](uint32_t lane) { return lane / 4 * ROW + lane % 4 * 4; }),
        received},
       {"address-of-received",
        with<MMAS_D>(true, 16, [](uint32_t lane) { return lane % 4 * 2 * ROW + lane / 4 * 2; }),
        received},
       {"address-of-received",
        with<MMAS_D>(
            true, 16,
            [](uint32_t lane) { return (lane / 8 % 2 * 8 + lane % 4 * 2) * ROW + lane / 4 * 2; }),
        received},
       {"two-lanes-a-row",
        with<MMAS_D>(true, 16, [](uint32_t lane) { return lane / 2 * ROW + lane % 2 * 16; }),
        "neighbouring lanes gave two pieces of one row. Lanes 0-7 give the rows of the first "
        "matrix, lanes 8-15 those of the second"},
       {"row-in-elements",
        with<MMAS_D>(true, 16, [](uint32_t lane) { return lane % 16 * ROW / 2; }),
        "a row was taken for as many bytes as it has elements. An element has 2"},
       {"step-in-elements", with<MMAS_D>(true, 8, right),
        "the next 8 columns begin 8 bytes after the first; 8 elements are 16 bytes"},
       {"step-forgotten", with<MMAS_D>(true, 0, right),
        "every load is of the first 8 columns. The next begin 16 bytes further right"},
       {"step-down", with<MMAS_D>(true, 8 * ROW, right),
        "each step went 8 keys down. The steps go along d, 16 bytes to the right"},
       {"step-down", with<MMAS_D>(true, 16 * ROW, right),
        "each step went 16 keys down. The steps go along d, 16 bytes to the right"},
       {"step-of-16-columns", with<MMAS_D>(true, 32, right),
        "each load went 16 columns on. Operand B is 8 columns wide, 16 bytes"}});
}

TEST_CASE("64 of d") { check_V<8>(); }
TEST_CASE("128 of d") { check_V<16>(); }
