#include <doctest/doctest.h>

#include <cmath>
#include <x4_v.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Numbers;

// Small whole numbers: every product and sum is exact.
static int element(int row, int column, int seed) { return (row * 7 + column * 5 + seed) % 13 - 6; }

struct Seen {
  Numbers O;  // [16, d]
  fa::simt::Report report;
};

template <int MMAS_D, int MMAS_KV, class Multiply>
static Seen run(Multiply multiply) {
  constexpr int KEYS = MMAS_KV * 16, DIM = MMAS_D * 8;
  std::vector<uint16_t> V;
  for (int i = 0; i < KEYS * DIM; ++i)
    V.push_back(fa::to_bf16(static_cast<float>(element(i / DIM, i % DIM, 3))).bits);
  Seen seen{Numbers(16 * DIM, NAN), {}};
  seen.report = exercise::run_block(32, V.size() * 2, [&] {
    exercise::fill_shared(dynamic_smem(), V);
    const int lane = lane_index();
    uint32_t P_rmem[MMAS_KV][4];
    for (int j = 0; j < MMAS_KV; ++j) {
      for (int r = 0; r < 4; ++r) {
        const int row = r % 2 * 8 + lane / 4, key = j * 16 + r / 2 * 8 + lane % 4 * 2;
        P_rmem[j][r] = pack_bf16x2(static_cast<float>(element(row, key, 0)),
                                   static_cast<float>(element(row, key + 1, 0)));
      }
    }
    float O_rmem[MMAS_D][4] = {};
    multiply(O_rmem, P_rmem, dynamic_smem());
    for (int tile = 0; tile < MMAS_D; ++tile)
      for (int i = 0; i < 4; ++i)
        seen.O[(i / 2 * 8 + lane / 4) * DIM + tile * 8 + lane % 4 * 2 + i % 2] = O_rmem[tile][i];
  });
  return seen;
}

template <int MMAS_D, int MMAS_KV, class Address>
static Numbers with(bool trans, Address address) {
  constexpr uint32_t ROW = MMAS_D * 16;
  return run<MMAS_D, MMAS_KV>([&](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
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
      .O;
}

template <int MMAS_D, int MMAS_KV>
static void check_product() {
  constexpr int KEYS = MMAS_KV * 16, DIM = MMAS_D * 8;
  const Seen seen = run<MMAS_D, MMAS_KV>([](auto& O_rmem, const auto& P_rmem, uint32_t V_smem) {
    ex06::multiply_weights_value(O_rmem, P_rmem, V_smem);
  });
  Numbers expected(16 * DIM);
  for (int q = 0; q < 16; ++q)
    for (int d = 0; d < DIM; ++d)
      for (int key = 0; key < KEYS; ++key)
        expected[q * DIM + d] += element(q, key, 0) * element(key, d, 3);

  const auto right = [](uint32_t lane, uint32_t row) { return lane % 16 * row + lane / 16 * 16; };
  exercise::check_no_hazards(seen.report);
  exercise::check_output(
      {"O", DIM, 0}, seen.O, expected,
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
  const int64_t loads = seen.report.counters.ldmatrix_instructions;
  const int64_t products = seen.report.counters.mma_instructions;
  exercise::check(loads == MMAS_KV * MMAS_D / 2,
                  std::to_string(loads) + " ldmatrix for " + std::to_string(products) +
                      " mma, expected " + std::to_string(MMAS_KV * MMAS_D / 2),
                  {{"still-x2", loads == MMAS_KV * MMAS_D,
                    "one ldmatrix for each mma: an x4 brings operand B for two"}});
}

TEST_CASE("16 keys, d = 16") { check_product<2, 1>(); }
TEST_CASE("64 keys, d = 64") { check_product<8, 4>(); }
