#include <doctest/doctest.h>

#include <x4_k.hpp>

#include "exercises/support/product.hpp"

using namespace emulator;
using exercise::Numbers;

template <int MMAS_KV, int MMAS_D>
using Scores = exercise::Product<exercise::Factor::K, MMAS_KV, MMAS_D>;

// 16 keys and 16 of d at a time with address(lane); the second mma adds to tile j + `next`.
template <int MMAS_KV, int MMAS_D, class Address>
static Numbers with(Address address, int next = 1) {
  constexpr uint32_t ROW = MMAS_D * 32;
  return Scores<MMAS_KV, MMAS_D>::run([&](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
           for (int d = 0; d < MMAS_D; ++d) {
             for (int j = 0; j < MMAS_KV; j += 2) {
               uint32_t r[4];
               ldmatrix_x4(r, K_smem + address(static_cast<uint32_t>(lane_index()), ROW) +
                                  j * 8 * ROW + d * 32);
               mma_m16n8k16(Q_rmem[d], {r[0], r[1]}, S_rmem[j]);
               mma_m16n8k16(Q_rmem[d], {r[2], r[3]}, S_rmem[j + next]);
             }
           }
         })
      .c;
}

template <int MMAS_KV, int MMAS_D>
static void check_scores() {
  using Product = Scores<MMAS_KV, MMAS_D>;
  const Product seen = Product::run([](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
    ex06::multiply_query_key(S_rmem, Q_rmem, K_smem);
  });
  const auto right = [](uint32_t lane, uint32_t row) {
    return (lane / 16 * 8 + lane % 8) * row + lane / 8 % 2 * 16;
  };
  exercise::check_no_hazards(seen.report);
  exercise::check_output(
      {"S", Product::COLUMNS, 0}, seen.c, Product::expected(),
      {{"lanes-16-to-31-repeat", with<MMAS_KV, MMAS_D>([](uint32_t lane, uint32_t row) {
          return lane % 8 * row + lane / 8 % 2 * 16;
        }),
        "lanes 16-31 gave the addresses of lanes 0-15 again, so keys 8-15 of every 16 have the "
        "scores of keys 0-7; x2 ignores these lanes, x4 does not"},
       {"order-of-v", with<MMAS_KV, MMAS_D>([](uint32_t lane, uint32_t row) {
          return lane % 16 * row + lane / 16 * 16;
        }),
        "the matrices are numbered down first, as for V, so the first mma got two pieces of d 0-7; "
        "for K registers 0 and 1 are d 0-7 and d 8-15 of the same keys"},
       {"both-to-one-tile", with<MMAS_KV, MMAS_D>(right, 0),
        "both mma added to the same tile of S, and the next tile stayed 0; with 16 keys a load the "
        "second mma belongs to the next 8 keys"}});
  seen.check_two_mma_a_load();
}

TEST_CASE("16 keys, d = 32") { check_scores<2, 2>(); }
TEST_CASE("64 keys, d = 64") { check_scores<8, 4>(); }
