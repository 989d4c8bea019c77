#pragma once
// One product C = A B of a tile of attention, as one warp computes it on the emulator, with A in
// registers, B in shared memory. Small whole numbers, so that every product and sum is exact.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "exercises/support/warp.hpp"

namespace exercise {

// S = Q K.T or O = P V. K and V are [keys, d], where a row of K is a column of S, a row of V one
// step of the sum.
enum class Factor { K, V };

// C [16, 8 TILES] from 16 STEPS products a number.
template <Factor B, int TILES, int STEPS>
struct Product {
  static constexpr int COLUMNS = TILES * 8, DEPTH = STEPS * 16;
  static constexpr int B_COLUMNS = B == Factor::K ? DEPTH : COLUMNS;

  Numbers c = Numbers(16 * COLUMNS, NAN);
  fa::simt::Report report;

  // Every lane calls multiply(C_rmem [TILES][4], A_rmem [STEPS][4], address of B).
  template <class Multiply>
  static Product run(const Multiply& multiply) {
    std::vector<uint16_t> b;
    for (int i = 0; i < COLUMNS * DEPTH; ++i)
      b.push_back(fa::to_bf16(element(i / B_COLUMNS, i % B_COLUMNS, 3)).bits);
    Product seen;
    seen.report = run_block(32, b.size() * 2, [&] {
      fill_shared(emulator::dynamic_smem(), b);
      const int lane = emulator::lane_index();
      uint32_t A_rmem[STEPS][4];
      for (int step = 0; step < STEPS; ++step) {
        for (int r = 0; r < 4; ++r) {
          const int row = r % 2 * 8 + lane / 4, k = step * 16 + r / 2 * 8 + lane % 4 * 2;
          A_rmem[step][r] = emulator::pack_bf16x2(element(row, k, 0), element(row, k + 1, 0));
        }
      }
      struct {
        float c[TILES][4] = {};
        float behind[2][4] = {};  // where a loop that goes too far writes
      } C_rmem;
      multiply(C_rmem.c, A_rmem, emulator::dynamic_smem());
      for (int tile = 0; tile < TILES; ++tile) {
        for (int i = 0; i < 4; ++i) {
          const int row = i / 2 * 8 + lane / 4, column = tile * 8 + lane % 4 * 2 + i % 2;
          seen.c[row * COLUMNS + column] = C_rmem.c[tile][i];
        }
      }
    });
    return seen;
  }

  static Numbers expected() {
    Numbers c(16 * COLUMNS);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < COLUMNS; ++column) {
        for (int k = 0; k < DEPTH; ++k) {
          const float b = B == Factor::K ? element(column, k, 3) : element(k, column, 3);
          c[row * COLUMNS + column] += element(row, k, 0) * b;
        }
      }
    }
    return c;
  }

  // The product, no hazard, and an ldmatrix.x4 that brings operand B for two mma.
  void check(const std::string& name, const std::vector<Look>& mistakes,
             int line = __builtin_LINE(), const char* file = __builtin_FILE()) const {
    constexpr int64_t LOADS = TILES * STEPS / 2;
    const int64_t loads = report.counters.ldmatrix_instructions;
    std::string message = hazards(report) + difference({name, COLUMNS, 0}, c, expected());
    if (loads != LOADS) {
      message += (message.empty() ? "the product is right; " : "\n") + std::to_string(loads) +
                 " ldmatrix for " + std::to_string(report.counters.mma_instructions) +
                 " mma, expected " + std::to_string(LOADS) + " for " + std::to_string(2 * LOADS);
    }
    check_shown(message.empty(), message, shown(), mistakes, line, file);
  }

  // All that a mistake must explain.
  std::string shown() const {
    std::string all = hazard_kinds(report) + std::to_string(report.counters.ldmatrix_instructions);
    for (const double value : c) all += " " + text(value);
    return all;
  }

 private:
  static float element(int row, int column, int seed) {
    return static_cast<float>((row * 7 + column * 5 + seed) % 13 - 6);
  }
};

}  // namespace exercise
