#include <doctest/doctest.h>

#include <x4_v.hpp>

#include "exercises/support/product.hpp"

using namespace emulator;
using exercise::Numbers;

template <int MMAS_D, int MMAS_KV>
using Outputs = exercise::Product<exercise::Factor::V, MMAS_D, MMAS_KV>;

template <int MMAS_D, int MMAS_KV, class Address>
static Numbers with(bool trans, Address address) {
  constexpr uint32_t ROW = MMAS_D * 16;
  return Outputs<MMAS_D, MMAS_KV>::run([&](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
           for (int j = 0; j < MMAS_KV; ++j) {
             for (int i = 0; i < MMAS_D; i += 2) {
               const uint32_t at = V_smem + address(static_cast<uint32_t>(lane_index()), ROW) +
                                   j * 16 * ROW + i * 16;
               uint32_t r[4];
               if (trans) {
                 ldmatrix_x4_trans(r, at);
               } else {
                 ldmatrix_x4(r, at);
               }
               mma_m16n8k16(P_rmem[j], {r[0], r[1]}, O_rmem[i]);
               mma_m16n8k16(P_rmem[j], {r[2], r[3]}, O_rmem[i + 1]);
             }
           }
         })
      .c;
}

template <int MMAS_D, int MMAS_KV>
static void check_product() {
  using Product = Outputs<MMAS_D, MMAS_KV>;
  const Product seen = Product::run([](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
    ex06::multiply_weights_value(O_rmem, P_rmem, V_smem);
  });
  const auto right = [](uint32_t lane, uint32_t row) { return lane % 16 * row + lane / 16 * 16; };
  exercise::check_no_hazards(seen.report);
  exercise::check_output(
      {"O", Product::COLUMNS, 0}, seen.c, Product::expected(),
      {{"lanes-16-to-31-repeat",
        with<MMAS_D, MMAS_KV>(true, [](uint32_t lane, uint32_t row) { return lane % 16 * row; }),
        "lanes 16-31 gave the addresses of lanes 0-15 again, so columns 8-15 of every 16 repeat "
        "columns 0-7; x2 ignores these lanes, x4 does not"},
       {"order-of-k",
        with<MMAS_D, MMAS_KV>(true,
                              [](uint32_t lane, uint32_t row) {
                                return (lane / 16 * 8 + lane % 8) * row + lane / 8 % 2 * 16;
                              }),
        "the matrices are numbered right first, as for K, so the first mma got keys 0-7 twice; for "
        "V registers 0 and 1 are keys 0-7 and 8-15 of the same columns"},
       {"no-trans", with<MMAS_D, MMAS_KV>(false, right),
        "V was loaded as it lies; the sum runs over keys, so two neighbouring keys must share a "
        "register: .trans"}});
  seen.check_two_mma_a_load();
}

TEST_CASE("16 keys, d = 16") { check_product<2, 1>(); }
TEST_CASE("64 keys, d = 64") { check_product<8, 4>(); }
