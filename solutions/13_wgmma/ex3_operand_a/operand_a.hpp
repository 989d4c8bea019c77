#pragma once
// A register of A holds two neighbours of an accumulator, rounded. So a thread already holds, in S,
// the elements of P that it must give. Only the scale needs to know which keys they are.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex13 {

using fa::fp16;

struct Place {
  int row, key;
};

// S [64, KEYS] = Q K^T by one warpgroup, where thread 0 to 127 holds float S_rmem[KEYS / 8][4].
// Which element of S is S_rmem[j][i]?
FA_HOST_DEVICE inline Place place_of(int thread, int j, int i) {
  const int lane = thread % 32;
  const int row = thread / 32 * 16 + lane / 4 + i / 2 * 8;
  return {row, j * 8 + lane % 4 * 2 + i % 2};
}

// P = S * key_scale, column by column, so that element [row][key] times key_scale[key], for the
// keys 16 step to 16 step + 15, rounded to fp16, as operand A [64, 16]. All 128 threads call it,
// each with separate registers, and none needs another's.
template <int KEYS>
FA_DEVICE void pack_weights(uint32_t (&P_rmem)[4], const float (&S_rmem)[KEYS / 8][4], int step,
                            const float* key_scale) {
  for (int i = 0; i < 4; ++i) {
    const int j = step * 2 + i / 2, first = i % 2 * 2;  // the rows 8 below; then the next 8 keys
    const int key = place_of(thread_index(), j, first).key;
    const float p0 = S_rmem[j][first] * key_scale[key];
    const float p1 = S_rmem[j][first + 1] * key_scale[key + 1];
    P_rmem[i] = pack<fp16>(p0, p1);
  }
}

}  // namespace FA_BACKEND::ex13
