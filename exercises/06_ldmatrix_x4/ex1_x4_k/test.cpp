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
  exercise::Changes is;

  // The address for a load of 16 keys x 16 of d.
  uint32_t address(uint32_t row) const {
    const uint32_t down = is("second-8-repeat") || is("side-by-side") ? lane() % 8
                          : is("numbered-down")                       ? lane() % 16
                          : is("four-down")                           ? lane()
                                            : lane() / 16 * 8 + lane() % 8;
    const uint32_t right = is("side-by-side")    ? lane() / 8
                           : is("numbered-down") ? lane() / 16
                           : is("four-down")     ? 0
                                                 : lane() / 8 % 2;
    return down * row / (is("row-in-elements") ? 2 : 1) + right * (is("half-in-elements") ? 8 : 16);
  }
  void load(uint32_t (&r)[4], uint32_t at) const {
    if (is("trans-on-k")) {
      ldmatrix_x4_trans(r, at);
    } else {
      ldmatrix_x4(r, at);
    }
    if (is("halves-exchanged")) std::swap(r[0], r[1]), std::swap(r[2], r[3]);
    if (is("middle-exchanged")) std::swap(r[1], r[2]);
    if (is("pairs-exchanged")) std::swap(r[0], r[2]), std::swap(r[1], r[3]);
  }
  template <int MMAS_KV, int MMAS_D>
  void sixteen_keys(float (&S_rmem)[MMAS_KV][4], const uint32_t (&Q_rmem)[MMAS_D][4],
                    uint32_t K_smem) const {
    constexpr uint32_t ROW = MMAS_D * 32;
    const int turn = is("still-x2") || is("one-tile-a-turn") ? 1 : 2;
    const int second = is("far-apart") ? MMAS_KV / 2 : is("both-to-one-tile") ? 0 : 1;
    for (int step = 0; step < MMAS_D; ++step)
      for (int tile = 0; tile < MMAS_KV; tile += turn) {
        const uint32_t at = K_smem + address(ROW) +
                            tile * (is.integer("rows", is("row-in-elements") ? 4 : 8) * ROW +
                                    is.integer("bytes", 0)) +
                            step * is.integer("step", 32);
        if (is("still-x2")) {
          uint32_t pair[2];
          ldmatrix_x2(pair, at);
          mma_m16n8k16(Q_rmem[step], pair, S_rmem[tile]);
          continue;
        }
        uint32_t r[4];
        load(r, at);
        const int j = is("by-load") ? tile / 2 : tile;
        mma_m16n8k16(Q_rmem[step], {r[0], r[1]}, S_rmem[j]);
        if (j + second < MMAS_KV) mma_m16n8k16(Q_rmem[step], {r[2], r[3]}, S_rmem[j + second]);
      }
  }
  // The other choice, 8 keys x 32 of d, is right as well.
  template <int MMAS_KV, int MMAS_D>
  void wide(float (&S_rmem)[MMAS_KV][4], const uint32_t (&Q_rmem)[MMAS_D][4],
            uint32_t K_smem) const {
    constexpr uint32_t ROW = MMAS_D * 32;
    for (int tile = 0; tile < MMAS_KV; ++tile)
      for (int step = 0; step < MMAS_D; step += 2) {
        uint32_t r[4];
        load(r, K_smem + address(ROW) +
                    tile * is.integer("rows", is("row-in-elements") ? 4 : 8) * ROW +
                    step / 2 * is.integer("step", 64));
        mma_m16n8k16(Q_rmem[step], {r[0], r[1]}, S_rmem[tile]);
        mma_m16n8k16(Q_rmem[step + !is("same-q-twice")], {r[2], r[3]}, S_rmem[tile]);
      }
  }
};

static const exercise::Table MISTAKES(R"(
still-x2: still-x2 second-8-repeat
  right, but with one ldmatrix for each mma: an x4 brings operand B for two
lanes-16-to-31-repeat: second-8-repeat
  lanes 16-31 gave the addresses of lanes 0-15 again, so keys 8-15 of every 16 have the scores of
  keys 0-7. x2 ignores these lanes, x4 does not
matrices-mispaired: numbered-down
  the first mma got two pieces of d 0-7: either the addresses number the matrices down first, as for
  V, or registers 0 and 2 were paired. The first B is registers 0 and 1, d 0-7 and d 8-15 of the
  same keys
pairs-exchanged
  registers 2 and 3 went to the first tile and 0 and 1 to the second. Registers 0 and 1 are keys 0-7
halves-exchanged
  the two registers of each B are exchanged: the first holds d 0-7, the second d 8-15
four-to-the-right: side-by-side
  the four matrices were taken from the same 8 keys, one right of the other. Matrices 2 and 3 are
  the next 8 keys
four-down
  the four matrices were taken one below the other. Matrices 1 and 3 are right of 0 and 2
halves-in-elements: half-in-elements
  the second half went 8 bytes to the right. 8 elements are 16 bytes
row-in-elements
  a row was taken for as many bytes as it has elements. An element has 2
trans-on-k
  K was transposed. A row of K holds neighbours along d as they are needed
both-to-one-tile
  both mma added to the same tile of S, and the next tile stayed 0. With 16 keys a load the second
  mma belongs to the next 8 keys
tiles-far-apart: far-apart
  the second mma added to a tile MMAS_KV / 2 further on. It belongs to the next 8 keys
tiles-far-apart: far-apart by-load
  load j's tiles went to S_rmem[j] and S_rmem[j + MMAS_KV / 2]. Its keys are 16 j to 16 j + 15,
  tiles 2 j and 2 j + 1
loads-for-tiles: by-load
  load j's tiles went to S_rmem[j] and S_rmem[j + 1], as if a load were one tile. Its keys are 16 j
  to 16 j + 15, tiles 2 j and 2 j + 1
one-tile-a-turn
  each turn goes one tile on, and loads two: the tiles are added twice. Step by two
step-doubled: rows=16
  the loads go twice as far down as they should: mma_kv counts tiles of 8 keys already
rows-forgotten: rows=0 bytes={8,16}
  the offset of the keys is no whole number of rows: 8 keys are 8 times ROW_BYTES
rows-forgotten: rows=1
  each tile went one row down. A tile has 8 keys
half-the-rows: rows=4
  every load went 8 keys on for 16: mma_kv counts tiles, not loads
keys-forgotten: rows=0
  every load was of the first 16 keys
step-in-elements: step=16
  the next 16 of d begin 16 bytes on. 16 elements are 32 bytes
step-too-far: step=64
  the next 16 of d begin 32 bytes on, and here it is 64
d-forgotten: step=0
  every step along d loaded the first 16
same-q-twice: wide side-by-side same-q-twice
  a load took 32 of d of the same 8 keys, and both mma the same 16 columns of Q. The second B
  belongs to the next Q_rmem
pairs-exchanged: wide side-by-side pairs-exchanged
  registers 2 and 3 went to the first Q_rmem and 0 and 1 to the second. Registers 0 and 1 are the
  first 16 of d
halves-exchanged: wide side-by-side halves-exchanged
  the two registers of each B are exchanged: the first holds d 0-7, the second d 8-15
matrices-mispaired: wide side-by-side middle-exchanged
  the first mma got d 0-7 and d 16-23: registers 0 and 2 were paired, or the addresses number the
  matrices so. A B is two neighbours along d
addresses-of-16-keys: wide
  lanes 16-31 gave rows of the next 8 keys, and both mma added to the same tile of S. 8 keys × 32 of
  d are four matrices side by side
lanes-16-to-31-repeat: wide second-8-repeat
  lanes 16-31 gave the addresses of lanes 0-15 again, so d 16-31 of each load is d 0-15. x2 ignores
  these lanes, x4 does not
halves-in-elements: wide side-by-side half-in-elements
  each next matrix was taken 8 bytes further right. 8 elements are 16 bytes
row-in-elements: wide side-by-side row-in-elements
  a row was taken for as many bytes as it has elements. An element has 2
trans-on-k: wide side-by-side trans-on-k
  K was transposed. A row of K holds neighbours along d as they are needed
step-doubled: wide side-by-side rows=16
  the loads go twice as far down as they should: a load has 8 keys here
rows-forgotten: wide side-by-side rows=1
  each tile went one row down. A tile has 8 keys
keys-forgotten: wide side-by-side rows=0
  every load was of the first 8 keys
step-too-far: wide side-by-side step=128
  the next 32 of d begin 64 bytes on, and here it is 128: a counter that goes by two has the second
  factor 2 in it already
step-too-short: wide side-by-side step=32
  the next 32 of d begin 64 bytes on, and here it is 32
d-forgotten: wide side-by-side step=0
  every step along d loaded the first 32
)");

template <int MMAS_KV, int MMAS_D>
static void check_scores() {
  using Run = Scores<MMAS_KV, MMAS_D>;
  const auto seen = Run::run([](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
    ex06::multiply_query_key(S_rmem, Q_rmem, K_smem);
  });
  seen.check("S", exercise::looks<Way>(MISTAKES, [](const Way& way) {
               return Run::run([&](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
                        if (way.is("wide")) return way.wide(S_rmem, Q_rmem, K_smem);
                        way.sixteen_keys(S_rmem, Q_rmem, K_smem);
                      })
                   .shown();
             }));
}

TEST_CASE("16 keys, d = 32") { check_scores<2, 2>(); }
TEST_CASE("64 keys, d = 64") { check_scores<8, 4>(); }
