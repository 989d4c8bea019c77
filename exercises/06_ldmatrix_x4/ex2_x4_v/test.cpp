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
  exercise::Changes is;

  uint32_t address(uint32_t row) const {
    const uint32_t down = is("right-first")    ? lane() / 16 * 8 + lane() % 8
                          : is("side-by-side") ? lane() % 8
                          : is("four-down")    ? lane()
                                               : lane() % 16;
    const uint32_t right = is("right-first")                         ? lane() / 8 % 2
                           : is("side-by-side")                      ? lane() / 8
                           : is.any("four-down", "second-16-repeat") ? 0
                                                                     : lane() / 16;
    return down * row / (is("row-in-elements") ? 2 : 1) + right * (is("half-in-elements") ? 8 : 16);
  }
  template <int MMAS_D, int MMAS_KV>
  void multiply(float (&O_rmem)[MMAS_D][4], const uint32_t (&P_rmem)[MMAS_KV][4],
                uint32_t V_smem) const {
    constexpr uint32_t ROW = MMAS_D * 16;
    const int second = is("far-apart") ? MMAS_D / 2 : is("both-to-one-tile") ? 0 : 1;
    for (int step = 0; step < MMAS_KV; ++step)
      for (int tile = 0; tile < MMAS_D; tile += is.any("still-x2", "one-tile-a-turn") ? 1 : 2) {
        const uint32_t at = V_smem + address(ROW) +
                            step * (is.integer("rows", 16) * ROW + is.integer("bytes", 0)) +
                            tile * is.integer("columns", 16);
        if (is("still-x2")) {
          uint32_t pair[2];
          ldmatrix_x2_trans(pair, at);
          mma_m16n8k16(P_rmem[step], pair, O_rmem[tile]);
          continue;
        }
        uint32_t r[4];
        if (is("no-trans")) {
          ldmatrix_x4(r, at);
        } else {
          ldmatrix_x4_trans(r, at);
        }
        if (is("halves-exchanged")) std::swap(r[0], r[1]), std::swap(r[2], r[3]);
        if (is("pairs-exchanged")) std::swap(r[0], r[2]), std::swap(r[1], r[3]);
        mma_m16n8k16(P_rmem[step], {r[0], r[1]}, O_rmem[tile]);
        if (tile + second < MMAS_D) mma_m16n8k16(P_rmem[step], {r[2], r[3]}, O_rmem[tile + second]);
      }
  }
};

static const exercise::Table MISTAKES(R"(
still-x2: still-x2 second-16-repeat
  right, but with one ldmatrix for each mma: an x4 brings operand B for two
lanes-16-to-31-repeat: second-16-repeat
  lanes 16-31 gave the addresses of lanes 0-15 again, so columns 8-15 of every 16 repeat columns
  0-7. x2 ignores these lanes, x4 does not
matrices-mispaired: right-first
  the first mma got keys 0-7 twice: either the addresses number the matrices right first, as for K,
  or registers 0 and 2 were paired. The first B is registers 0 and 1, keys 0-7 and 8-15 of the same
  columns
pairs-exchanged
  registers 2 and 3 went to the first tile and 0 and 1 to the second. Registers 0 and 1 are columns
  0-7
halves-exchanged
  the two registers of each B are exchanged: the first holds keys 0-7, the second keys 8-15. .trans
  transposes each piece in itself and leaves their order
four-to-the-right: side-by-side
  the four matrices were taken from the same 8 keys, one right of the other. Matrices 1 and 3 are
  the next 8 keys
four-down
  the four matrices were taken one below the other. Matrices 2 and 3 are right of 0 and 1
halves-in-elements: half-in-elements
  lanes 16-31 went 8 bytes to the right. 8 elements are 16 bytes
row-in-elements: row-in-elements rows=8
  a row was taken for as many bytes as it has elements. An element has 2
no-trans
  V was loaded without .trans. The sum runs over keys, so that two neighbouring keys must share a
  register: .trans
both-to-one-tile
  both mma added to the same tile of O, and the next tile stayed 0. The second mma belongs to the
  next 8 columns
tiles-far-apart: far-apart
  the second mma added to a tile MMAS_D / 2 further on. It belongs to the next 8 columns
one-tile-a-turn
  each turn goes one tile on, and loads two: the tiles are added twice. Step by two
step-doubled: columns=32
  the loads go twice as far to the right as they should: mma_d counts tiles of 8 columns, 16 bytes
  each
step-in-elements: columns=8
  the next columns begin 8 bytes on for each tile. 8 elements are 16
columns-forgotten: columns=0
  every load was of the first 16 columns
step-of-8-keys: rows=8
  each step went 8 keys down. An mma takes 16 keys: MMA_K and not MMA_N
rows-forgotten: rows=0 bytes={16,32}
  the offset of the keys is no whole number of rows: 16 keys are 16 times ROW_BYTES
rows-forgotten: rows=1
  each step went one row down. It takes 16 keys
keys-forgotten: rows=0
  every step loaded the first 16 keys
)");

template <int MMAS_D, int MMAS_KV>
static void check_product() {
  using Run = Outputs<MMAS_D, MMAS_KV>;
  const auto seen = Run::run([](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
    ex06::multiply_weights_value(O_rmem, P_rmem, V_smem);
  });
  seen.check("O", exercise::looks<Way>(MISTAKES, [](const Way& way) {
               return Run::run([&](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
                        way.multiply(O_rmem, P_rmem, V_smem);
                      })
                   .shown();
             }));
}

TEST_CASE("16 keys, d = 16") { check_product<2, 1>(); }
TEST_CASE("64 keys, d = 64") { check_product<8, 4>(); }
