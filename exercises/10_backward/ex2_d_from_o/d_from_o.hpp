#pragma once
// D of a tile of queries, from O and dO.

#include "common/half.hpp"
#include "exercises/support/todo.hpp"

constexpr int BLOCK_Q = 4;  // queries of a tile

// O, dO: [heads, len_q, dim], one row after the other. fa::to_float(x) is the value of a bf16.
// D:     [BLOCK_Q], of tile `q_tile` of the queries of `head`, the sum of dO O over a row, in fp32.
// D of a row past the last query is 0. D holds NaN before the call.
inline void d_from_o(const fa::bf16* O, const fa::bf16* dO, int len_q, int dim, int head,
                     int q_tile, float* D) {
  exercise::todo("TODO(10.2): D of each row of the tile, and 0 past the last query");
}
