#pragma once
// This is so short because the layouts of C and A differ only in the order of their pieces. Tile j
// of C is half j % 2 of tile j / 2 of A. Its left half has registers 0 and 1, its right half 2 and
// 3. In each half the upper 8 rows come first.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int MMAS_KV>
FA_DEVICE void pack_P(uint32_t (&P_rmem)[MMAS_KV / 2][4], const float (&P)[MMAS_KV][4]) {
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int half = 0; half < 2; ++half)
      P_rmem[mma_kv / 2][mma_kv % 2 * 2 + half] =
          pack_bf16x2(P[mma_kv][half * 2], P[mma_kv][half * 2 + 1]);
}

}  // namespace FA_BACKEND::ex03
