#pragma once
// Cycles of a product on an array that may be smaller than it.
#include <algorithm>
#include <cstdint>

inline std::int64_t product_cycles(int M, int K, int N, int rows, int cols) {
  const int down = (K + rows - 1) / rows, across = (N + cols - 1) / cols;
  std::int64_t cycles = 0;
  for (int i = 0; i < down; ++i) {
    const int height = i + 1 < down ? rows : K % rows;
    for (int j = 0; j < across; ++j) {
      const int width = j + 1 < across ? cols : N % cols;
      cycles += M + height + width - 2;
    }
  }
  return cycles;
}
