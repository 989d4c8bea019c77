#include <doctest/doctest.h>

#include <bit>
#include <pack_p.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Fragments;

// P's elements are floats that are bf16 numbers already, and their bits tell their place.
template <int MMAS_KV, class Pack>
static Fragments run(Pack pack) {
  Fragments packed(MMAS_KV * 2);
  packed.report = exercise::run_block(32, 0, [&] {
    float P[MMAS_KV][4];
    for (int tile = 0; tile < MMAS_KV; ++tile) {
      for (int i = 0; i < 4; ++i) {
        const uint32_t row = i / 2 * 8 + lane_index() / 4;
        const uint32_t column = tile * 8 + lane_index() % 4 * 2 + i % 2;
        P[tile][i] = std::bit_cast<float>((row * MMAS_KV * 8 + column) << 16);
      }
    }
    uint32_t P_rmem[MMAS_KV / 2][4];
    for (auto& tile : P_rmem)
      for (uint32_t& r : tile) r = 0xFFFFFFFFu;
    pack(P_rmem, P);
    packed.keep(P_rmem[0]);
  });
  return packed;
}

// Register r of tile t: pack(P[tile(t, r)][low(r)], P[tile(t, r)][low(r) + step]).
template <int MMAS_KV, class Tile, class Low>
static Fragments with(Tile tile, Low low, int step = 1) {
  return run<MMAS_KV>([&](uint32_t(&P_rmem)[MMAS_KV / 2][4], const float(&P)[MMAS_KV][4]) {
    for (int t = 0; t < MMAS_KV / 2; ++t)
      for (int r = 0; r < 4; ++r)
        P_rmem[t][r] = pack_bf16x2(P[tile(t, r)][low(r)], P[tile(t, r)][low(r) + step]);
  });
}

template <int MMAS_KV>
static void check_pack() {
  const Fragments got = run<MMAS_KV>([](uint32_t(&P_rmem)[MMAS_KV / 2][4],
                                        const float(&P)[MMAS_KV][4]) { ex03::pack_P(P_rmem, P); });
  Fragments expected(MMAS_KV * 2);
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < MMAS_KV * 2; ++r) {
      const uint32_t row = r % 2 * 8 + lane / 4, column = r / 2 * 8 + lane % 4 * 2;
      const uint32_t low = row * MMAS_KV * 8 + column;
      expected.values[lane * expected.registers + r] = low | (low + 1) << 16;
    }
  }
  const auto tile = [](int t, int r) { return t * 2 + r / 2; };
  const auto low = [](int r) { return r % 2 * 2; };
  std::vector<exercise::FragmentsMistake> mistakes = {
      {"halves-exchanged",
       with<MMAS_KV>(
           tile, [](int r) { return r % 2 * 2 + 1; }, -1),
       "the two elements of each register are exchanged. The left one is the low half, the first "
       "argument of pack_bf16x2"},
      {"right-before-down",
       with<MMAS_KV>([](int t, int r) { return t * 2 + r % 2; }, [](int r) { return r / 2 * 2; }),
       "registers 1 and 2 are exchanged. Operand A goes down first: register 1 is rows 8-15 of the "
       "left half"},
      {"column-by-column",
       with<MMAS_KV>(
           tile, [](int r) { return r % 2; }, 2),
       "c[0] was packed with c[2], which is eight rows further down. A register holds two "
       "neighbours of a row, c[0] and c[1]"},
      {"left-tile-twice", with<MMAS_KV>([](int t, int) { return t * 2; }, low),
       "registers 2 and 3 repeat 0 and 1: both halves were packed from tile 2 i. The right half is "
       "tile 2 i + 1"},
      {"halves-of-a-tile-exchanged", with<MMAS_KV>(tile, [](int r) { return (1 - r % 2) * 2; }),
       "c[2] c[3] went before c[0] c[1]. In each half of operand A the upper 8 rows come first"},
      {"tiles-exchanged", with<MMAS_KV>([](int t, int r) { return t * 2 + 1 - r / 2; }, low),
       "the right tile went before the left one: registers 0 and 1 are tile 2 i, 2 and 3 tile 2 i "
       "+ 1"},
      {"upper-half-only", with<MMAS_KV>(tile, [](int) { return 0; }),
       "c[0] c[1] went into both registers of a half. c[2] c[3], eight rows further down, are the "
       "second"},
      {"across-two-tiles",
       run<MMAS_KV>([](uint32_t(&P_rmem)[MMAS_KV / 2][4], const float(&P)[MMAS_KV][4]) {
         for (int t = 0; t < MMAS_KV / 2; ++t)
           for (int r = 0; r < 4; ++r) P_rmem[t][r] = pack_bf16x2(P[2 * t][r], P[2 * t + 1][r]);
       }),
       "an element of the left tile was packed with one of the right. A register holds two "
       "neighbours of a row, c[0] and c[1] of one tile"}};
  if (MMAS_KV > 2) {  // with one 16x16 tile these are right
    mistakes.push_back(
        {"overlapping-tiles", with<MMAS_KV>([](int t, int r) { return t + r / 2; }, low),
         "16x16 tile i was made of tiles i and i + 1. It should be made of tiles 2 i and 2 i + 1"});
    mistakes.push_back({"tiles-far-apart",
                        with<MMAS_KV>([](int t, int r) { return t + r / 2 * (MMAS_KV / 2); }, low),
                        "each 16x16 tile was made of two tiles that are MMAS_KV / 2 apart. Its "
                        "halves are side by side: tiles 2 i and 2 i + 1"});
  }
  exercise::check_fragments({"row", "column", MMAS_KV * 8, "P_rmem"}, got, expected, mistakes);
}

TEST_CASE("16 keys") { check_pack<2>(); }
TEST_CASE("64 keys") { check_pack<8>(); }
