#pragma once
// M is part of every tile's cost, because a tile of B stays in the array while all of A passes it.
// So long streams waste little, and many small tiles waste much.
#include <algorithm>
#include <cstdint>

inline std::int64_t product_cycles(int M, int K, int N, int rows, int cols) {
  std::int64_t cycles = 0;
  for (int k = 0; k < K; k += rows) {
    for (int n = 0; n < N; n += cols) {
      cycles += M + std::min(rows, K - k) + std::min(cols, N - n) - 2;
    }
  }
  return cycles;
}
