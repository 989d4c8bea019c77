#include <doctest/doctest.h>

#include <ldmatrix_k.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Fragments;

// load(K_rmem, K_smem) by one warp, from a tile of 24 keys, where the answer has to load keys 0 to
// 7.
template <int MMAS_D, class Load>
static Fragments run(Load load) {
  const auto matrix = exercise::labelled_matrix(24, MMAS_D * 16);
  Fragments loaded(MMAS_D * 2);
  loaded.report = exercise::run_block(32, matrix.size() * 2, [&] {
    exercise::fill_shared(dynamic_smem(), matrix);
    uint32_t K_rmem[MMAS_D][2];
    load(K_rmem, dynamic_smem());
    loaded.keep(K_rmem[0]);
  });
  return loaded;
}

template <int MMAS_D, class Address>
static Fragments with(bool trans, uint32_t step, Address address) {
  return run<MMAS_D>([&](uint32_t(&K_rmem)[MMAS_D][2], uint32_t K_smem) {
    const uint32_t lane_offset = address(static_cast<uint32_t>(lane_index()));
    for (int i = 0; i < MMAS_D; ++i) {
      if (trans) {
        ldmatrix_x2_trans(K_rmem[i], K_smem + lane_offset + i * step);
      } else {
        ldmatrix_x2(K_rmem[i], K_smem + lane_offset + i * step);
      }
    }
  });
}

template <int MMAS_D>
static void check_K() {
  constexpr uint32_t ROW = MMAS_D * 32;
  Fragments expected(MMAS_D * 2);
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < MMAS_D * 2; ++r) {
      const uint32_t low = lane / 4 * MMAS_D * 16 + r * 8 + lane % 4 * 2;
      expected.values[lane * expected.registers + r] = low | (low + 1) << 16;
    }
  }
  const auto right = [](uint32_t lane) { return lane % 8 * ROW + lane / 8 % 2 * 16; };
  const Fragments loaded = run<MMAS_D>([](uint32_t(&K_rmem)[MMAS_D][2], uint32_t K_smem) {
    ex03::load_fragments_K(K_rmem, K_smem);
  });
  exercise::check_fragments(
      {"key", "d", MMAS_D * 16, "K_rmem", 2}, loaded, expected,
      {{"trans-on-k", with<MMAS_D>(true, 32, right),
        "K was transposed. Two neighbours along d share a register, and a row of K holds just "
        "these: it is V that needs .trans"},
       {"next-keys-for-next-d",
        with<MMAS_D>(false, 32, [](uint32_t lane) { return lane % 16 * ROW; }),
        "lanes 8-15 gave the next 8 keys. The second half of operand B is the same keys, d 8-15"},
       {"address-of-received",
        with<MMAS_D>(false, 32, [](uint32_t lane) { return lane / 4 * ROW + lane % 4 * 4; }),
        "each lane gave the address of what it receives. It should give the start of a row, and "
        "ldmatrix hands the parts out"},
       {"loader-of-v", with<MMAS_D>(true, 32, [](uint32_t lane) { return lane % 16 * ROW; }),
        "this is the loader of V: the next keys for the second matrix, and .trans. For K the "
        "second matrix is the same 8 keys further right, and nothing is transposed"},
       {"loader-of-v", with<MMAS_D>(true, 16, [](uint32_t lane) { return lane % 16 * ROW; }),
        "this is the loader of V: the next keys for the second matrix, and .trans. For K the "
        "second matrix is the same 8 keys further right, and nothing is transposed"},
       {"eight-rows-twice", with<MMAS_D>(false, 32, [](uint32_t lane) { return lane % 8 * ROW; }),
        "lanes 8-15 gave the addresses of lanes 0-7 again, so both registers hold the same. The "
        "second is d 8-15, 16 bytes to the right"},
       {"halves-in-elements",
        with<MMAS_D>(false, 32, [](uint32_t lane) { return lane % 8 * ROW + lane / 8 % 2 * 8; }),
        "lanes 8-15 went 8 bytes to the right; 8 elements are 16 bytes"},
       {"row-in-elements",
        with<MMAS_D>(false, 32,
                     [](uint32_t lane) { return lane % 8 * ROW / 2 + lane / 8 % 2 * 16; }),
        "a row was taken for as many bytes as it has elements. An element has 2"},
       {"half-too-far",
        with<MMAS_D>(false, 32, [](uint32_t lane) { return lane % 8 * ROW + lane / 8 % 2 * 32; }),
        "lanes 8-15 went 16 elements to the right. A half is 8 of them, 16 bytes"},
       {"row-and-chunk-exchanged",
        with<MMAS_D>(false, 32, [](uint32_t lane) { return lane / 8 % 2 * ROW + lane % 8 * 16; }),
        "lane % 8 counted chunks and lane / 8 rows. It should be the other way round"},
       {"two-lanes-a-row",
        with<MMAS_D>(false, 32, [](uint32_t lane) { return lane / 2 * ROW + lane % 2 * 16; }),
        "neighbouring lanes gave the two halves of one row. Lanes 0-7 give the rows of the first "
        "matrix, lanes 8-15 those of the second"},
       {"step-forgotten", with<MMAS_D>(false, 0, right),
        "every step along d loads the first 16 again. The next begins 32 bytes further right"},
       {"step-down", with<MMAS_D>(false, 8 * ROW, right),
        "each step went 8 keys down. The steps go along d, 32 bytes to the right"},
       {"step-in-elements", with<MMAS_D>(false, 16, right),
        "the second step along d begins 16 bytes after the first; 16 elements are 32 bytes"}});
}

TEST_CASE("16 of d") { check_K<1>(); }
TEST_CASE("64 of d") { check_K<4>(); }
