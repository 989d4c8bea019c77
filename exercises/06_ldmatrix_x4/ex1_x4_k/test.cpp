#include <doctest/doctest.h>

#include <cmath>
#include <x4_k.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::Numbers;

// Small whole numbers: every product and sum is exact.
static int element(int row, int column, int seed) { return (row * 7 + column * 5 + seed) % 13 - 6; }

struct Seen {
  Numbers S;  // [16, keys]
  fa::simt::Report report;
};

template <int MMAS_KV, int MMAS_D, class Multiply>
static Seen run(Multiply multiply) {
  constexpr int KEYS = MMAS_KV * 8, DIM = MMAS_D * 16;
  std::vector<uint16_t> K;
  for (int i = 0; i < KEYS * DIM; ++i)
    K.push_back(fa::to_bf16(static_cast<float>(element(i / DIM, i % DIM, 3))).bits);
  Seen seen{Numbers(16 * KEYS, NAN), {}};
  seen.report = exercise::run_block(32, K.size() * 2, [&] {
    exercise::fill_shared(dynamic_smem(), K);
    const int lane = lane_index();
    uint32_t Q_rmem[MMAS_D][4];
    for (int d = 0; d < MMAS_D; ++d) {
      for (int r = 0; r < 4; ++r) {
        const int row = r % 2 * 8 + lane / 4, column = d * 16 + r / 2 * 8 + lane % 4 * 2;
        Q_rmem[d][r] = pack_bf16x2(static_cast<float>(element(row, column, 0)),
                                   static_cast<float>(element(row, column + 1, 0)));
      }
    }
    float S_rmem[MMAS_KV][4] = {};
    multiply(S_rmem, Q_rmem, dynamic_smem());
    for (int tile = 0; tile < MMAS_KV; ++tile)
      for (int i = 0; i < 4; ++i)
        seen.S[(i / 2 * 8 + lane / 4) * KEYS + tile * 8 + lane % 4 * 2 + i % 2] = S_rmem[tile][i];
  });
  return seen;
}

// 16 keys and 16 of d at a time with address(lane); the second mma adds to tile j + `next`.
template <int MMAS_KV, int MMAS_D, class Address>
static Numbers with(Address address, int next = 1) {
  constexpr uint32_t ROW = MMAS_D * 32;
  return run<MMAS_KV, MMAS_D>([&](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
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
      .S;
}

template <int MMAS_KV, int MMAS_D>
static void check_scores() {
  constexpr int KEYS = MMAS_KV * 8, DIM = MMAS_D * 16;
  const Seen seen = run<MMAS_KV, MMAS_D>([](auto& S_rmem, const auto& Q_rmem, uint32_t K_smem) {
    ex06::multiply_query_key(S_rmem, Q_rmem, K_smem);
  });
  Numbers expected(16 * KEYS);
  for (int q = 0; q < 16; ++q)
    for (int key = 0; key < KEYS; ++key)
      for (int d = 0; d < DIM; ++d)
        expected[q * KEYS + key] += element(q, d, 0) * element(key, d, 3);

  const auto right = [](uint32_t lane, uint32_t row) {
    return (lane / 16 * 8 + lane % 8) * row + lane / 8 % 2 * 16;
  };
  exercise::check_no_hazards(seen.report);
  exercise::check_output(
      {"S", KEYS, 0}, seen.S, expected,
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
  const int64_t loads = seen.report.counters.ldmatrix_instructions;
  const int64_t products = seen.report.counters.mma_instructions;
  exercise::check(loads == MMAS_KV * MMAS_D / 2,
                  std::to_string(loads) + " ldmatrix for " + std::to_string(products) +
                      " mma, expected " + std::to_string(MMAS_KV * MMAS_D / 2),
                  {{"still-x2", loads == MMAS_KV * MMAS_D,
                    "one ldmatrix for each mma: an x4 brings operand B for two"}});
}

TEST_CASE("16 keys, d = 32") { check_scores<2, 2>(); }
TEST_CASE("64 keys, d = 64") { check_scores<8, 4>(); }
