#include <doctest/doctest.h>

#include <utility>
#include <x4_v.hpp>

#include "exercises/support/product.hpp"

using namespace emulator;

// Tiles along d, steps of keys.
template <int MMAS_D, int MMAS_KV>
using Outputs = exercise::Product<exercise::Factor::V, MMAS_D, MMAS_KV>;

static uint32_t lane() { return static_cast<uint32_t>(lane_index()); }

// The right loops, and each mistake as a change to them.
struct Way {
  uint32_t (*address)(uint32_t row_bytes) = [](uint32_t row) {
    return lane() % 16 * row + lane() / 16 * 16;
  };
  bool trans = true, x2 = false;
  int tiles_a_turn = 2, second_tile = 1;  // the second mma adds to tile j + second_tile
  int first_register = 0;                 // first register of the first mma
  bool halves_exchanged = false;          // the second register of each B comes before the first
  int tile_bytes = 16;                    // bytes from tile to tile
  int step_rows = 16, step_bytes = 0;     // step of 16 keys: rows down, and bytes further
};

template <int MMAS_D, int MMAS_KV>
static std::string with(const Way& way) {
  constexpr uint32_t ROW = MMAS_D * 16;
  return Outputs<MMAS_D, MMAS_KV>::run([&](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
           for (int step = 0; step < MMAS_KV; ++step) {
             for (int tile = 0; tile < MMAS_D; tile += way.tiles_a_turn) {
               const uint32_t at = V_smem + way.address(ROW) +
                                   step * (way.step_rows * ROW + way.step_bytes) +
                                   tile * way.tile_bytes;
               uint32_t r[4];
               if (way.x2) {
                 uint32_t pair[2];
                 ldmatrix_x2_trans(pair, at);
                 mma_m16n8k16(P_rmem[step], pair, O_rmem[tile]);
                 continue;
               }
               if (way.trans) {
                 ldmatrix_x4_trans(r, at);
               } else {
                 ldmatrix_x4(r, at);
               }
               if (way.halves_exchanged) std::swap(r[0], r[1]), std::swap(r[2], r[3]);
               const int first = way.first_register;
               mma_m16n8k16(P_rmem[step], {r[first], r[first + 1]}, O_rmem[tile]);
               if (tile + way.second_tile < MMAS_D)
                 mma_m16n8k16(P_rmem[step], {r[2 - first], r[3 - first]},
                              O_rmem[tile + way.second_tile]);
             }
           }
         })
      .shown();
}

template <int MMAS_D, int MMAS_KV>
static void check_product() {
  const auto seen =
      Outputs<MMAS_D, MMAS_KV>::run([](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
        ex06::multiply_weights_value(O_rmem, P_rmem, V_smem);
      });
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    looks.push_back({name, with<MMAS_D, MMAS_KV>(way), explanation});
  };
  mistake(
      "still-x2", "right, but with one ldmatrix for each mma: an x4 brings operand B for two",
      {.address = [](uint32_t row) { return lane() % 16 * row; }, .x2 = true, .tiles_a_turn = 1});
  mistake("lanes-16-to-31-repeat",
          "lanes 16-31 gave the addresses of lanes 0-15 again, so columns 8-15 of every 16 repeat "
          "columns 0-7; x2 ignores these lanes, x4 does not",
          {.address = [](uint32_t row) { return lane() % 16 * row; }});
  mistake("matrices-mispaired",
          "the first mma got keys 0-7 twice: either the addresses number the matrices right first, "
          "as for K, or registers 0 and 2 were paired; the first B is registers 0 and 1, keys 0-7 "
          "and 8-15 of the same columns",
          {.address = [](uint32_t row) {
            return (lane() / 16 * 8 + lane() % 8) * row + lane() / 8 % 2 * 16;
          }});
  mistake("pairs-exchanged",
          "registers 2 and 3 went to the first tile and 0 and 1 to the second; registers 0 and 1 "
          "are columns 0-7",
          {.first_register = 2});
  mistake("halves-exchanged",
          "the two registers of each B are exchanged: the first holds keys 0-7, the second keys "
          "8-15; .trans transposes each piece in itself and leaves their order",
          {.halves_exchanged = true});
  mistake("four-to-the-right",
          "the four matrices were taken from the same 8 keys, one right of the other; matrices 1 "
          "and 3 are the next 8 keys",
          {.address = [](uint32_t row) { return lane() % 8 * row + lane() / 8 * 16; }});
  mistake("four-down",
          "the four matrices were taken one below the other; matrices 2 and 3 are right of 0 and 1",
          {.address = [](uint32_t row) { return lane() * row; }});
  mistake("halves-in-elements", "lanes 16-31 went 8 bytes to the right; 8 elements are 16 bytes",
          {.address = [](uint32_t row) { return lane() % 16 * row + lane() / 16 * 8; }});
  mistake("row-in-elements",
          "a row was taken for as many bytes as it has elements; an element has 2",
          {.address = [](uint32_t row) { return lane() % 16 * row / 2 + lane() / 16 * 16; },
           .step_rows = 8});
  mistake("no-trans",
          "V was loaded without .trans; the sum runs over keys, so that two neighbouring keys must "
          "share a register: .trans",
          {.trans = false});
  mistake("both-to-one-tile",
          "both mma added to the same tile of O, and the next tile stayed 0; the second mma "
          "belongs to the next 8 columns",
          {.second_tile = 0});
  mistake("tiles-far-apart",
          "the second mma added to a tile MMAS_D / 2 further on; it belongs to the next 8 columns",
          {.second_tile = MMAS_D / 2});
  mistake("one-tile-a-turn",
          "each turn goes one tile on, and loads two: the tiles are added twice; step by two",
          {.tiles_a_turn = 1});
  mistake("step-doubled",
          "the loads go twice as far to the right as they should: mma_d counts tiles of 8 columns, "
          "16 bytes each",
          {.tile_bytes = 32});
  mistake("step-in-elements", "the next columns begin 8 bytes on for each tile; 8 elements are 16",
          {.tile_bytes = 8});
  mistake("columns-forgotten", "every load was of the first 16 columns", {.tile_bytes = 0});
  mistake("step-of-8-keys", "each step went 8 keys down; an mma takes 16 keys: MMA_K and not MMA_N",
          {.step_rows = 8});
  mistake("rows-forgotten",
          "the offset of the keys is no whole number of rows: 16 keys are 16 times ROW_BYTES",
          {.step_rows = 0, .step_bytes = 16});
  mistake("rows-forgotten",
          "the offset of the keys is no whole number of rows: 16 keys are 16 times ROW_BYTES",
          {.step_rows = 0, .step_bytes = 32});
  mistake("rows-forgotten", "each step went one row down; it takes 16 keys", {.step_rows = 1});
  mistake("keys-forgotten", "every step loaded the first 16 keys", {.step_rows = 0});
  seen.check("O", looks);
}

TEST_CASE("16 keys, d = 16") { check_product<2, 1>(); }
TEST_CASE("64 keys, d = 64") { check_product<8, 4>(); }
