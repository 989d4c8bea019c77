#pragma once
// The changes of a score between Q @ K.T and softmax.

#include "chapters/09_masks_and_shapes/breaks.hpp"
#include "common/kernels/mask.hpp"

namespace FA_BACKEND::ch09 {

// Parameters of the modifiers, where each modifier uses its own.
struct Modifiers {
  float softcap;    // 0 for none
  int alibi_heads;  // the largest power of two that is at most the number of heads, or 0
};

// A modifier may change a score between Q @ K.T and the mask. `distance` is the distance of the key
// from the one that the query is aligned with. A kernel with NoModifier has none of this code.
struct NoModifier {
  static constexpr bool EXISTS = false;
  FA_DEVICE NoModifier(const Modifiers&, int) {}
  FA_DEVICE float operator()(float score, int) const { return score; }
};

struct SoftcapAndAlibi {
  static constexpr bool EXISTS = true;
  float cap, slope;
  FA_DEVICE SoftcapAndAlibi(const Modifiers& modifiers, int head)
      : cap(modifiers.softcap), slope(0.0f) {
    const int power = modifiers.alibi_heads;
    if (power == 0) return;
    // ALiBi's slopes are 2^(-8 step / power). Heads past the power of two have half steps.
    const float step =
        static_cast<float>(head < power ? head + 1 : head - power) + (head < power ? 0.0f : 0.5f);
    slope = exp2(-8.0f * step / static_cast<float>(power));
  }
  FA_DEVICE float operator()(float score, int distance) const {
    if (cap > 0.0f) score = capped(score);
    return score - slope * static_cast<float>(distance < 0 ? -distance : distance);
  }

  // Returns cap tanh(score / cap). tanh x = 1 - 2 / (e^2x + 1), even if e^2x is inf. Near 0 this is
  // 1 - 1, and a large cap would multiply its error. Therefore a series is used there, which is x
  // for tiny x.
  FA_DEVICE float capped(float score) const {
    const float x = score / cap, y = x * x;
    const float series = 1.0f + y * (-1.0f / 3 + y * (2.0f / 15 + y * (-17.0f / 315)));
    if (fabsf(x) < 0.125f) return score * series;
    return cap * (1.0f - 2.0f / (exp(2.0f * x) + 1.0f));
  }
};

// S = modifier(scale S)
template <int MMAS_Q, int MMAS_KV, class Modifier>
FA_DEVICE void modify_scores(float (&S_rmem)[MMAS_Q][MMAS_KV][4], const Modifier& modifier,
                             float scale, const Mask& mask, int query, int key) {
  FA_UNROLL
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) FA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = query + mma_q * MMA_M + half * 8 + lane_index() / 4;
    const int lane_distance = key + lane_index() % 4 * 2 - (row + mask.diagonal);
    for_scores(S_rmem, mma_q, half, [&](float& score, int column) {
      score = modifier(score * scale, lane_distance + column);
    });
  }
}

// [anchor: change_scores]
// The modifier comes first, because after the mask it would turn -inf into a number (tanh(-inf) =
// -1).
template <bool MASKED, int MMAS_Q, int MMAS_KV, class Modifier, class Breaks>
FA_DEVICE void change_scores(float (&S_rmem)[MMAS_Q][MMAS_KV][4], const Modifier& modifier,
                             float scale, const Mask& mask, int query, int key, Breaks breaks) {
  const auto hide = [&] {
    if (MASKED && !breaks.has(fa::UNMASKED_TAIL)) mask_scores(S_rmem, mask, query, key);
  };
  const bool mask_first = breaks.has(fa::SOFTCAP_AFTER_MASK);
  if (mask_first) hide();
  if constexpr (Modifier::EXISTS) modify_scores(S_rmem, modifier, scale, mask, query, key);
  if (!mask_first) hide();
}
// [/anchor: change_scores]

// A fully masked row has m = -inf, and -inf - (-inf) is NaN (see subtrahend).
template <class Breaks>
FA_DEVICE float guarded(float m, Breaks breaks) {
  return breaks.has(fa::UNGUARDED_MAX) ? m : subtrahend(m);
}

}  // namespace FA_BACKEND::ch09
