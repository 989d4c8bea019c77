#pragma once

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int MMAS_KV>
FA_DEVICE void pack_P(uint32_t (&P_rmem)[MMAS_KV / 2][4], const float (&P)[MMAS_KV][4]) {
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int half = 0; half < 2; ++half)
      P_rmem[mma_kv / 2][half * 2 + mma_kv % 2] =
          pack_bf16x2(P[mma_kv][half * 2], P[mma_kv][half * 2 + 1]);
}

}  // namespace FA_BACKEND::ex03
