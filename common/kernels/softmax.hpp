#pragma once
// Online softmax on the accumulator registers of mma. Chapter 03 teaches it, and the chapters up to
// 07 leave it unchanged.
//
// S_rmem[MMAS_Q][MMAS_KV][4] is this lane's part of S [WARP_Q, BLOCK_KV]. In each 16x8 tile it
// holds c0 c1 (row lane/4, columns 2 (lane%4) and the next) and c2 c3 (row lane/4 + 8, the same
// columns). Therefore a lane holds two rows per tile, m, l and rescale are [MMAS_Q][2], and the
// four lanes of a quad share each row.

#include <limits>

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND {

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// [anchor: mask_tail]
// Sets the scores of keys past the last one to -inf. The zero-filled rows of the tile would
// otherwise score 0 and get the weight exp(0 - m).
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void mask_tail(float (&S_rmem)[MMAS_Q][MMAS_KV][4], int keys_left) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      for (int i = 0; i < 4; ++i) {
        const int key = mma_kv * MMA_N + lane_index() % 4 * 2 + i % 2;
        if (key >= keys_left) S_rmem[mma_q][mma_kv][i] = NEG_INF;
      }
}
// [/anchor: mask_tail]

// S *= scale
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void scale_scores(float (&S_rmem)[MMAS_Q][MMAS_KV][4], float scale) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      for (int i = 0; i < 4; ++i) S_rmem[mma_q][mma_kv][i] *= scale;
}

// [anchor: quad_reduce]
// Combines a row's partial results, one in each of the quad's four lanes, so that all four lanes
// hold the total. First, lanes that differ in bit 0 exchange their values, and then lanes that
// differ in bit 1 do.
template <class Breaks, class Combine>
FA_DEVICE float quad_reduce(float value, Breaks breaks, Combine combine) {
  value = combine(value, shfl_xor(value, 1));
  return combine(value, shfl_xor(value, breaks.has(fa::SHUFFLE_MASK_0X10) ? 0x10 : 2));
}
// [/anchor: quad_reduce]

// A row whose scores are all -inf keeps m = -inf, and -inf - (-inf) would be NaN. Subtracting 0
// instead gives the correct exp(-inf) = 0. (The idea comes from FlashAttention.)
FA_DEVICE float subtrahend(float m) { return m == NEG_INF ? 0.0f : m; }

// [anchor: fold]
// Since chapter 08, the exponent of a weight is fma(s, scale_log2, -m_log2). The FMA rounds once,
// but m_log2 = m * scale_log2 has been rounded before, so for s = m the exponent is that error
// instead of 0. Below 4096 the error is at most 2^-13, less than the rounding of a weight to 16
// bits. If m_log2 is larger, the kernel subtracts first, S -= m, with m_log2 = 0.
FA_DEVICE bool is_foldable(float m, float scale_log2) { return fabsf(m * scale_log2) < 4096.0f; }

FA_DEVICE float folded_max(float m, float scale_log2) {
  return (is_foldable(m, scale_log2) ? m : 0.0f) * scale_log2;
}

// S -= m in the rows where m is not foldable.
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void subtract_large_max(float (&S_rmem)[MMAS_Q][MMAS_KV][4], const float (&m)[MMAS_Q][2],
                                  float scale_log2) {
  bool found = false;
  for (const auto& row : m)
    for (const float m_row : row) found |= !is_foldable(m_row, scale_log2);
  if (!warp_any(found)) return;
  FA_UNROLL
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) FA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float m_row = m[mma_q][half];
    const float early = is_foldable(m_row, scale_log2) ? 0.0f : subtrahend(m_row);
    FA_UNROLL
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      for (int i = 0; i < 2; ++i) S_rmem[mma_q][mma_kv][half * 2 + i] -= early;
  }
}
// [/anchor: fold]

// [anchor: row_max]
// m' = max(m, rowmax S),   rescale = exp(m - m')
template <int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE void update_row_max(float (&m)[MMAS_Q][2], float (&rescale)[MMAS_Q][2],
                              const float (&S_rmem)[MMAS_Q][MMAS_KV][4], Breaks breaks) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {  // row lane/4, then row lane/4 + 8
      float row_max = NEG_INF;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
        const float* c = &S_rmem[mma_q][mma_kv][half * 2];
        row_max = max(row_max, max(c[0], c[1]));
      }
      row_max = quad_reduce(row_max, breaks, [](float a, float b) { return max(a, b); });

      const float m_old = m[mma_q][half];
      float m_new = max(m_old, row_max);
      if (breaks.has(fa::NO_RESCALE)) m_new = row_max;  // each tile uses its own maximum
      if (breaks.has(fa::NO_MAX)) m_new = 0.0f;
      m[mma_q][half] = m_new;
      rescale[mma_q][half] = breaks.has(fa::NO_RESCALE) ? 1.0f : exp(m_old - subtrahend(m_new));
    }
}
// [/anchor: row_max]

// [anchor: rescale]
// O *= exp(m - m'), because the sums so far used the old maximum
template <int MMAS_Q, int MMAS_D>
FA_DEVICE void scale_rows(float (&O_rmem)[MMAS_Q][MMAS_D][4], const float (&factor)[MMAS_Q][2]) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
      for (int i = 0; i < 4; ++i) O_rmem[mma_q][mma_d][i] *= factor[mma_q][i / 2];
}
// [/anchor: rescale]

// [anchor: exponentiate_and_pack]
// P = exp(S - m),   l = l * rescale + rowsum P
// P becomes operand A of the next mma. Two adjacent 16x8 tiles of S form one 16x16 tile of A, and
// every lane already holds the elements that it must pass, so they only need rounding to bf16.
template <int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE void exponentiate_and_pack(uint32_t (&P_rmem)[MMAS_Q][MMAS_KV / 2][4],
                                     const float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                     const float (&m)[MMAS_Q][2], float (&l)[MMAS_Q][2],
                                     const float (&rescale)[MMAS_Q][2], Breaks breaks) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const float m_row = subtrahend(m[mma_q][half]);
      float row_sum = 0.0f;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
        const float p0 = exp(S_rmem[mma_q][mma_kv][half * 2 + 0] - m_row);
        const float p1 = exp(S_rmem[mma_q][mma_kv][half * 2 + 1] - m_row);
        row_sum += p0 + p1;
        P_rmem[mma_q][mma_kv / 2][mma_kv % 2 * 2 + half] = pack_bf16x2(p0, p1);
      }
      row_sum = quad_reduce(row_sum, breaks, [](float a, float b) { return a + b; });
      l[mma_q][half] = l[mma_q][half] * rescale[mma_q][half] + row_sum;
    }
}
// [/anchor: exponentiate_and_pack]

}  // namespace FA_BACKEND
