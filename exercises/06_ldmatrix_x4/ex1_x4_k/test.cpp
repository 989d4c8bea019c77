#include <doctest/doctest.h>

#include <utility>
#include <x4_k.hpp>

#include "exercises/support/product.hpp"

using namespace emulator;

// Tiles of keys, steps along d.
template <int MMAS_KV, int MMAS_D>
using Scores = exercise::Product<exercise::Factor::K, MMAS_KV, MMAS_D>;

static uint32_t lane() { return static_cast<uint32_t>(lane_index()); }

// The right loops, and each mistake as a change to them.
struct Way {
  uint32_t (*address)(uint32_t row_bytes) = [](uint32_t row) {
    return (lane() / 16 * 8 + lane() % 8) * row + lane() / 8 % 2 * 16;
  };
  bool trans = false, x2 = false;
  int tiles_a_turn = 2, second_tile = 1;  // the second mma adds to tile j + second_tile
  bool by_load = false;                   // j is the number of the load, not of its first tile
  int first_register = 0;                 // first register of the first mma
  bool halves_exchanged = false;          // the second register of each B comes before the first
  int tile_rows = 8, tile_bytes = 0;      // offset of tile j: rows down, and bytes further
  int step_bytes = 32;                    // along d
};

template <int MMAS_KV, int MMAS_D>
static std::string with(const Way& way) {
  constexpr uint32_t ROW = MMAS_D * 32;
  return Scores<MMAS_KV, MMAS_D>::run([&](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
           for (int step = 0; step < MMAS_D; ++step) {
             for (int tile = 0; tile < MMAS_KV; tile += way.tiles_a_turn) {
               const uint32_t at = K_smem + way.address(ROW) +
                                   tile * (way.tile_rows * ROW + way.tile_bytes) +
                                   step * way.step_bytes;
               uint32_t r[4];
               if (way.x2) {
                 uint32_t pair[2];
                 ldmatrix_x2(pair, at);
                 mma_m16n8k16(Q_rmem[step], pair, S_rmem[tile]);
                 continue;
               }
               if (way.trans) {
                 ldmatrix_x4_trans(r, at);
               } else {
                 ldmatrix_x4(r, at);
               }
               if (way.halves_exchanged) std::swap(r[0], r[1]), std::swap(r[2], r[3]);
               const int first = way.first_register;
               const int j = way.by_load ? tile / 2 : tile;
               mma_m16n8k16(Q_rmem[step], {r[first], r[first + 1]}, S_rmem[j]);
               if (j + way.second_tile < MMAS_KV)
                 mma_m16n8k16(Q_rmem[step], {r[2 - first], r[3 - first]},
                              S_rmem[j + way.second_tile]);
             }
           }
         })
      .shown();
}

// The other choice, 8 keys × 32 of d: right, and each mistake as a change to it.
struct Wide {
  uint32_t (*address)(uint32_t row_bytes) = [](uint32_t row) {
    return lane() % 8 * row + lane() / 8 * 16;
  };
  bool trans = false;
  int registers[4] = {0, 1, 2, 3};  // first register of the first mma, then of the second
  int first_q = 0, second_q = 1;    // their steps along d
  int tile_rows = 8;                // offset of tile j: rows down
  int step_bytes = 64;              // along d, of two steps
};

template <int MMAS_KV, int MMAS_D>
static std::string with(const Wide& way) {
  constexpr uint32_t ROW = MMAS_D * 32;
  return Scores<MMAS_KV, MMAS_D>::run([&](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
           for (int tile = 0; tile < MMAS_KV; ++tile) {
             for (int step = 0; step < MMAS_D; step += 2) {
               const uint32_t at = K_smem + way.address(ROW) + tile * way.tile_rows * ROW +
                                   step / 2 * way.step_bytes;
               uint32_t r[4];
               if (way.trans) {
                 ldmatrix_x4_trans(r, at);
               } else {
                 ldmatrix_x4(r, at);
               }
               const auto& of = way.registers;
               mma_m16n8k16(Q_rmem[step + way.first_q], {r[of[0]], r[of[1]]}, S_rmem[tile]);
               mma_m16n8k16(Q_rmem[step + way.second_q], {r[of[2]], r[of[3]]}, S_rmem[tile]);
             }
           }
         })
      .shown();
}

template <int MMAS_KV, int MMAS_D>
static void check_scores() {
  const auto seen =
      Scores<MMAS_KV, MMAS_D>::run([](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
        ex06::multiply_query_key(S_rmem, Q_rmem, K_smem);
      });
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    looks.push_back({name, with<MMAS_KV, MMAS_D>(way), explanation});
  };
  mistake("still-x2", "right, but with one ldmatrix for each mma: an x4 brings operand B for two",
          {.address = [](uint32_t row) { return lane() % 8 * row + lane() / 8 % 2 * 16; },
           .x2 = true,
           .tiles_a_turn = 1});
  mistake("lanes-16-to-31-repeat",
          "lanes 16-31 gave the addresses of lanes 0-15 again, so keys 8-15 of every 16 have the "
          "scores of keys 0-7; x2 ignores these lanes, x4 does not",
          {.address = [](uint32_t row) { return lane() % 8 * row + lane() / 8 % 2 * 16; }});
  mistake("matrices-mispaired",
          "the first mma got two pieces of d 0-7: either the addresses number the matrices down "
          "first, as for V, or registers 0 and 2 were paired; the first B is registers 0 and 1, d "
          "0-7 and d 8-15 of the same keys",
          {.address = [](uint32_t row) { return lane() % 16 * row + lane() / 16 * 16; }});
  mistake("pairs-exchanged",
          "registers 2 and 3 went to the first tile and 0 and 1 to the second; registers 0 and 1 "
          "are keys 0-7",
          {.first_register = 2});
  mistake("halves-exchanged",
          "the two registers of each B are exchanged: the first holds d 0-7, the second d 8-15",
          {.halves_exchanged = true});
  mistake("four-to-the-right",
          "the four matrices were taken from the same 8 keys, one right of the other; matrices 2 "
          "and 3 are the next 8 keys",
          {.address = [](uint32_t row) { return lane() % 8 * row + lane() / 8 * 16; }});
  mistake("four-down",
          "the four matrices were taken one below the other; matrices 1 and 3 are right of 0 and 2",
          {.address = [](uint32_t row) { return lane() * row; }});
  mistake("halves-in-elements",
          "the second half went 8 bytes to the right; 8 elements are 16 bytes",
          {.address = [](uint32_t row) {
            return (lane() / 16 * 8 + lane() % 8) * row + lane() / 8 % 2 * 8;
          }});
  mistake("row-in-elements",
          "a row was taken for as many bytes as it has elements; an element has 2",
          {.address =
               [](uint32_t row) {
                 return (lane() / 16 * 8 + lane() % 8) * row / 2 + lane() / 8 % 2 * 16;
               },
           .tile_rows = 4});
  mistake("trans-on-k", "K was transposed; a row of K holds neighbours along d as they are needed",
          {.trans = true});
  mistake("both-to-one-tile",
          "both mma added to the same tile of S, and the next tile stayed 0; with 16 keys a load "
          "the second mma belongs to the next 8 keys",
          {.second_tile = 0});
  mistake("tiles-far-apart",
          "the second mma added to a tile MMAS_KV / 2 further on; it belongs to the next 8 keys",
          {.second_tile = MMAS_KV / 2});
  mistake("tiles-far-apart",
          "load j's tiles went to S_rmem[j] and S_rmem[j + MMAS_KV / 2]; its keys are 16 j to 16 j "
          "+ 15, tiles 2 j and 2 j + 1",
          {.second_tile = MMAS_KV / 2, .by_load = true});
  mistake("loads-for-tiles",
          "load j's tiles went to S_rmem[j] and S_rmem[j + 1], as if a load were one tile; its "
          "keys are 16 j to 16 j + 15, tiles 2 j and 2 j + 1",
          {.by_load = true});
  const char* const one =
      "each turn goes one tile on, and loads two: the tiles are added twice; step by two";
  mistake("one-tile-a-turn", one, {.tiles_a_turn = 1});
  const char* const doubled =
      "the loads go twice as far down as they should: mma_kv counts tiles of 8 keys already";
  mistake("step-doubled", doubled, {.tile_rows = 16});
  mistake("rows-forgotten",
          "the offset of the keys is no whole number of rows: 8 keys are 8 times ROW_BYTES",
          {.tile_rows = 0, .tile_bytes = 8});
  mistake("rows-forgotten",
          "the offset of the keys is no whole number of rows: 8 keys are 8 times ROW_BYTES",
          {.tile_rows = 0, .tile_bytes = 16});
  mistake("rows-forgotten", "each tile went one row down; a tile has 8 keys", {.tile_rows = 1});
  mistake("half-the-rows", "every load went 8 keys on for 16: mma_kv counts tiles, not loads",
          {.tile_rows = 4});
  mistake("keys-forgotten", "every load was of the first 16 keys", {.tile_rows = 0});
  mistake("step-in-elements", "the next 16 of d begin 16 bytes on; 16 elements are 32 bytes",
          {.step_bytes = 16});
  mistake("step-too-far", "the next 16 of d begin 32 bytes on, and here it is 64",
          {.step_bytes = 64});
  mistake("d-forgotten", "every step along d loaded the first 16", {.step_bytes = 0});
  const auto wide = [&](const char* name, const char* explanation, const Wide& way) {
    looks.push_back({name, with<MMAS_KV, MMAS_D>(way), explanation});
  };
  wide("same-q-twice",
       "a load took 32 of d of the same 8 keys, and both mma the same 16 columns of Q; the second "
       "B belongs to the next Q_rmem",
       {.second_q = 0});
  wide("pairs-exchanged",
       "registers 2 and 3 went to the first Q_rmem and 0 and 1 to the second; registers 0 and 1 "
       "are the first 16 of d",
       {.first_q = 1, .second_q = 0});
  wide("halves-exchanged",
       "the two registers of each B are exchanged: the first holds d 0-7, the second d 8-15",
       {.registers = {1, 0, 3, 2}});
  wide("matrices-mispaired",
       "the first mma got d 0-7 and d 16-23: registers 0 and 2 were paired, or the addresses "
       "number the matrices so; a B is two neighbours along d",
       {.registers = {0, 2, 1, 3}});
  wide("addresses-of-16-keys",
       "lanes 16-31 gave rows of the next 8 keys, and both mma added to the same tile of S; 8 keys "
       "× 32 of d are four matrices side by side",
       {.address = [](uint32_t row) {
         return (lane() / 16 * 8 + lane() % 8) * row + lane() / 8 % 2 * 16;
       }});
  wide("lanes-16-to-31-repeat",
       "lanes 16-31 gave the addresses of lanes 0-15 again, so d 16-31 of each load is d 0-15; x2 "
       "ignores these lanes, x4 does not",
       {.address = [](uint32_t row) { return lane() % 8 * row + lane() / 8 % 2 * 16; }});
  wide("halves-in-elements",
       "each next matrix was taken 8 bytes further right; 8 elements are 16 bytes",
       {.address = [](uint32_t row) { return lane() % 8 * row + lane() / 8 * 8; }});
  wide("row-in-elements", "a row was taken for as many bytes as it has elements; an element has 2",
       {.address = [](uint32_t row) { return lane() % 8 * row / 2 + lane() / 8 * 16; },
        .tile_rows = 4});
  wide("trans-on-k", "K was transposed; a row of K holds neighbours along d as they are needed",
       {.trans = true});
  wide("step-doubled", "the loads go twice as far down as they should: a load has 8 keys here",
       {.tile_rows = 16});
  wide("rows-forgotten", "each tile went one row down; a tile has 8 keys", {.tile_rows = 1});
  wide("keys-forgotten", "every load was of the first 8 keys", {.tile_rows = 0});
  wide("step-too-far",
       "the next 32 of d begin 64 bytes on, and here it is 128: a counter that goes by two has the "
       "second factor 2 in it already",
       {.step_bytes = 128});
  wide("step-too-short", "the next 32 of d begin 64 bytes on, and here it is 32",
       {.step_bytes = 32});
  wide("d-forgotten", "every step along d loaded the first 32", {.step_bytes = 0});
  seen.check("S", looks);
}

TEST_CASE("16 keys, d = 32") { check_scores<2, 2>(); }
TEST_CASE("64 keys, d = 64") { check_scores<8, 4>(); }
