#pragma once

#include <algorithm>
#include <cstdint>

inline std::int64_t product_cycles(int M, int K, int N, int rows, int cols) {
  return M + K + N - 2;
}
