#pragma once
// The sum is in fp32, because fp32 holds each product of two bf16 numbers exactly, and dP - D will
// cancel. The rows past the end are not read, because they belong to the next head.

#include "common/half.hpp"

constexpr int BLOCK_Q = 4;  // queries of a tile

// O, dO: [heads, len_q, dim], one row after the other. fa::to_float(x) is the value of a bf16.
// D:     [BLOCK_Q], of tile `q_tile` of the queries of `head`, the sum of dO O over a row, in fp32.
// D of a row past the last query is 0. D holds NaN before the call.
inline void d_from_o(const fa::bf16* O, const fa::bf16* dO, int len_q, int dim, int head,
                     int q_tile, float* D) {
  for (int i = 0; i < BLOCK_Q; ++i) {
    const int query = q_tile * BLOCK_Q + i;
    const int row = head * len_q + query;
    float sum = 0;
    for (int d = 0; query < len_q && d < dim; ++d)
      sum += fa::to_float(dO[row * dim + d]) * fa::to_float(O[row * dim + d]);
    D[i] = sum;
  }
}
