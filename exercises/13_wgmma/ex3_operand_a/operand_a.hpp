#pragma once
// The accumulators of S as operand A of the next wgmma.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex13 {

using fa::fp16;

struct Place {
  int row, key;
};

// S [64, KEYS] = Q K^T by one warpgroup, where thread 0 to 127 holds float S_rmem[KEYS / 8][4].
// Which element of S is S_rmem[j][i]?
FA_HOST_DEVICE inline Place place_of(int thread, int j, int i) {
  exercise::todo("TODO(13.3): the place of an accumulator, then operand A");
}

// P = S * key_scale, column by column, so that element [row][key] times key_scale[key], for the
// keys 16 step to 16 step + 15, rounded to fp16, as operand A [64, 16]. All 128 threads call it,
// each with separate registers, and none needs another's. thread_index() says which it is;
// pack<fp16>(low, high) rounds two floats and puts them into one register.
template <int KEYS>
FA_DEVICE void pack_weights(uint32_t (&P_rmem)[4], const float (&S_rmem)[KEYS / 8][4], int step,
                            const float* key_scale) {
  exercise::todo("TODO(13.3): the place of an accumulator, then operand A");
}

}  // namespace FA_BACKEND::ex13
