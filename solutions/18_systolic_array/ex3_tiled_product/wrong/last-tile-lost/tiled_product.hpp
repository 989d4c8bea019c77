#pragma once

#include <algorithm>
#include <cstdint>

inline std::int64_t product_cycles(int M, int K, int N, int rows, int cols) {
  return static_cast<std::int64_t>(K / rows) * (N / cols) * (M + rows + cols - 2);
}
