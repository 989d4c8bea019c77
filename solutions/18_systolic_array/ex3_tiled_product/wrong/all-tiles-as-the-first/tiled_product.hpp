#pragma once

#include <algorithm>
#include <cstdint>

inline std::int64_t product_cycles(int M, int K, int N, int rows, int cols) {
  const std::int64_t tiles = std::int64_t{(K + rows - 1) / rows} * ((N + cols - 1) / cols);
  return tiles * (M + std::min(rows, K) + std::min(cols, N) - 2);
}
