#pragma once
// Turns scores into weights, as in chapter 15, either with a maximum that is searched, or with any
// maximum for the exponentials.

#include "common/kernels/softmax.hpp"

namespace FA_BACKEND::ch16 {

// m' = max(m, rowmax S),   l *= exp(m - m');   true if O has to be multiplied by `rescale` too
// The exact way, as in chapter 15, where m stays until a weight would exceed 2^max_growth, because
// up to 256 is far from any overflow. (Chapter 21 lets weights grow more, and then sets m 2^room
// above the maximum.)
template <int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE bool raise_row_max(float (&m)[MMAS_Q][2], float (&l)[MMAS_Q][2],
                             float (&rescale)[MMAS_Q][2], float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                             float scale_log2, Breaks breaks, float max_growth = 8.0f,
                             float room = 0.0f) {
  float row_max[MMAS_Q][2];
  bool grew = breaks.has(fa::NO_RESCALE);
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {  // row lane/4, then row lane/4 + 8
      row_max[mma_q][half] = NEG_INF;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
        const float* c = &S_rmem[mma_q][mma_kv][half * 2];
        row_max[mma_q][half] = max(row_max[mma_q][half], max(c[0], c[1]));
      }
      // In the first tile m = -inf. Written so that the NaN of -inf - (-inf) counts as grown.
      grew |= !((row_max[mma_q][half] - m[mma_q][half]) * scale_log2 <= max_growth);
      grew |= !is_foldable(m[mma_q][half], scale_log2);
    }
  if (!warp_any(grew)) return false;

  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const float tile_max =
          quad_reduce(row_max[mma_q][half], breaks, [](float a, float b) { return max(a, b); });
      const float m_old = m[mma_q][half];
      float m_new = max(m_old, room > 0 ? tile_max + room / scale_log2 : tile_max);
      if (breaks.has(fa::NO_RESCALE)) m_new = tile_max;  // each tile uses its own maximum
      if (breaks.has(fa::NO_MAX)) m_new = 0.0f;
      m[mma_q][half] = m_new;
      rescale[mma_q][half] =
          breaks.has(fa::NO_RESCALE) ? 1.0f : exp2((m_old - subtrahend(m_new)) * scale_log2);
      l[mma_q][half] *= rescale[mma_q][half];
    }
  subtract_large_max(S_rmem, m, scale_log2);
  return true;
}

// [anchor: add_sink]
// A sink is one more state, (m, l, o) = (sink, 1, 0). It is merged after the last key, so that the
// loop needs no register for it.
template <int MMAS_D>
FA_DEVICE void add_sink(float (&O_rmem)[1][MMAS_D][4], float (&m)[1][2], float (&l)[1][2],
                        float sink, float scale_log2) {
  float rescale[1][2];
  for (int half = 0; half < 2; ++half) {
    const float m_old = m[0][half], m_new = max(m_old, sink);
    rescale[0][half] = exp2((m_old - subtrahend(m_new)) * scale_log2);
    l[0][half] = l[0][half] * rescale[0][half] + exp2((sink - subtrahend(m_new)) * scale_log2);
    m[0][half] = m_new;
  }
  scale_rows(O_rmem, rescale);
}
// [/anchor: add_sink]

// S = exp(scale (S - m)),   sum += this lane's part of rowsum S
template <int MMAS_KV>
FA_DEVICE void exponentiate(float (&S_rmem)[1][MMAS_KV][4], float (&sum)[2], const float (&m)[2],
                            float scale_log2) {
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int half = 0; half < 2; ++half) {
      float* s = &S_rmem[0][mma_kv][half * 2];
      const float m_log2 = folded_max(m[half], scale_log2);
      s[0] = exp2(fma(s[0], scale_log2, -m_log2));
      s[1] = exp2(fma(s[1], scale_log2, -m_log2));
      sum[half] += s[0] + s[1];
    }
}

// P = S, rounded, as operand A: a lane needs the elements of P whose S it has.
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void pack(uint32_t (&P_rmem)[MMAS_KV / 2][MMAS_Q][4],
                    const float (&S_rmem)[MMAS_Q][MMAS_KV][4]) {
  for (int mma_kv = 0; mma_kv < MMAS_KV / 2; ++mma_kv)
    for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
      for (int i = 0; i < 4; ++i) {
        const float* s = &S_rmem[mma_q][mma_kv * 2 + i / 2][i % 2 * 2];
        P_rmem[mma_kv][mma_q][i] = pack_bf16x2(s[0], s[1]);
      }
}

// Checks a row of O, because Inf and NaN times 0 are NaN, and all other values become 0.
template <int MMAS_D>
FA_DEVICE bool is_finite(const float (&O_rmem)[1][MMAS_D][4], int half) {
  float zero = 0.0f;
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    for (int i = 0; i < 2; ++i) zero = fma(O_rmem[0][mma_d][half * 2 + i], 0.0f, zero);
  return zero == 0.0f;
}

}  // namespace FA_BACKEND::ch16
