#pragma once
// Turns scores into weights that fit e4m3, relative to the current maximum.

#include "chapters/23_fp8/params.hpp"

namespace FA_BACKEND::ch23 {

// A weight is 2^(s - m), times 2^REFERENCE here, because e4m3 covers 448 down to 2^-9. At the
// maximum it is 32, so a weight may be 14 times as large before m must change.
constexpr float REFERENCE = 5.0f, LARGEST_WEIGHT = 448.0f;

// S = 2^(scale S - m + reference),   sum = this lane's part of rowsum S
// True if a weight may be above `most`. No weight is larger than a sum that contains it. A lane's
// part is summed in groups of eight, so that eight weights of 32 pass. NaN and Inf do not pass.
// [anchor: exponentiate]
template <int MMAS_KV>
FA_DEVICE bool exponentiate(float (&S_rmem)[1][MMAS_KV][4], float (&sum)[2], const float (&m)[2],
                            float scale, float reference, float most) {
  constexpr int PARTS = MMAS_KV / 4;
  static_assert(PARTS == 4, "eight weights of a row in each");
  float part[2][PARTS] = {};
  const float offset[2] = {reference - subtrahend(m[0]), reference - subtrahend(m[1])};
  FA_UNROLL
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int half = 0; half < 2; ++half) {
      float* s = &S_rmem[0][mma_kv][half * 2];
      s[0] = exp2(fma(s[0], scale, offset[half]));
      s[1] = exp2(fma(s[1], scale, offset[half]));
      part[half][mma_kv % PARTS] += s[0] + s[1];
    }
  bool large = false;
  for (int half = 0; half < 2; ++half) {
    const float* p = part[half];
    sum[half] = p[0] + p[1] + (p[2] + p[3]);  // NaN if one of them is, although max drops it
    large |= !(max(max(p[0], p[1]), max(p[2], p[3])) < most) || !(sum[half] < 4 * most);
  }
  return large;
}
// [/anchor: exponentiate]

// Reduces weights that are too large, all of a row by the same power of two, which is exact. m
// grows accordingly, and `rescale` is the factor for everything summed so far.
// [anchor: lower]
template <int MMAS_KV, class Breaks>
FA_DEVICE void lower_weights(float (&S_rmem)[1][MMAS_KV][4], float (&sum)[2], float (&m)[2],
                             float (&rescale)[1][2], float reference, Breaks breaks) {
  for (int half = 0; half < 2; ++half) {
    float largest = 0;
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      largest = max(largest, max(S_rmem[0][mma_kv][half * 2], S_rmem[0][mma_kv][half * 2 + 1]));
    largest = quad_reduce(largest, breaks, [](float a, float b) { return max(a, b); });
    const float growth = log(max(largest, 1.0f)) * 1.44269504f - reference;
    const float steps = growth > 0 ? static_cast<float>(round_to_int(growth + 0.5f)) : 0.0f;
    m[half] += steps;
    rescale[0][half] = exp2(-steps);
    sum[half] *= rescale[0][half];
  }
  scale_rows(S_rmem, rescale);
}
// [/anchor: lower]

// The exact way, before the exponentials: m' = max(m, rowmax of scale S). m stays until a weight
// would be more than 4 times as large as at the maximum. True if m changed.
template <int MMAS_KV, class Breaks>
FA_DEVICE bool raise_row_max(float (&m)[2], float (&rescale)[1][2],
                             const float (&S_rmem)[1][MMAS_KV][4], float scale, Breaks breaks) {
  constexpr float MAX_GROWTH = 2.0f;
  float row_max[2];
  bool grew = false;
  for (int half = 0; half < 2; ++half) {
    float largest = NEG_INF;
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      largest = max(largest, max(S_rmem[0][mma_kv][half * 2], S_rmem[0][mma_kv][half * 2 + 1]));
    row_max[half] = largest * scale;
    // In the first tile m = -inf. Written so that the NaN of -inf - (-inf) counts as grown.
    grew |= !(row_max[half] - m[half] <= MAX_GROWTH);
  }
  if (!warp_any(grew)) return false;
  for (int half = 0; half < 2; ++half) {
    const float tile_max =
        quad_reduce(row_max[half], breaks, [](float a, float b) { return max(a, b); });
    const float m_old = m[half];
    m[half] = max(m_old, tile_max);
    rescale[0][half] = exp2(m_old - subtrahend(m[half]));
  }
  return true;
}

// P = S in e4m3, as operand A. The elements of 32 keys that a lane holds are those that it must
// pass, because V's keys are in the order of key_of_slot.
// [anchor: pack]
template <int MMAS_KV>
FA_DEVICE void pack(uint32_t (&P_rmem)[MMAS_KV / 4][4], const float (&S_rmem)[1][MMAS_KV][4]) {
  for (int step = 0; step < MMAS_KV / 4; ++step)
    for (int i = 0; i < 4; ++i) {  // row lane/4 or + 8, slots 0-15 or 16-31
      const float* left = &S_rmem[0][step * 4 + i / 2 * 2][i % 2 * 2];
      const float* right = &S_rmem[0][step * 4 + i / 2 * 2 + 1][i % 2 * 2];
      P_rmem[step][i] = pack_e4m3x4(left[0], left[1], right[0], right[1]);
    }
}
// [/anchor: pack]

}  // namespace FA_BACKEND::ch23
