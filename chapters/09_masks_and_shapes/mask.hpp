#pragma once
// Which keys a query sees, which tiles of keys a tile of queries needs, and what happens to a score
// between Q @ K.T and softmax.

#include "chapters/09_masks_and_shapes/breaks.hpp"
#include "common/kernels/softmax.hpp"

namespace FA_BACKEND::ch09 {

// Of this problem; each modifier takes its own.
struct Modifiers {
  float softcap;     // 0: none
  float alibi_log2;  // log2 of the slope, for each head; 0: none
};

constexpr int UNLIMITED = 1 << 29;  // of a window's side: farther than any length

// [anchor: mask]
// The last query stands at the last key, so query i stands at key i + diagonal, where diagonal is
// len_kv - len_q. It sees that key, `left` keys back from there and `right` ahead. Causal:
// UNLIMITED back, 0 ahead.
struct Mask {
  int len_kv, diagonal;
  int left, right;

  // Query i sees keys [first_key(i), end_key(i)), and none if that is empty: the end may be
  // negative, the first may lie past the last key. Both grow with i.
  FA_DEVICE int first_key(int query) const {
    const int first = query + diagonal - left;
    return first > 0 ? first : 0;
  }
  FA_DEVICE int end_key(int query) const {
    const int end = query + diagonal + right + 1;
    return end < len_kv ? end : len_kv;
  }
};
// [/anchor: mask]

// [anchor: tiles]
// The tiles of BLOCK_KV keys that queries [first, last] need. In a clear tile each of them sees
// each key: there is nothing to mask. The others lie at the two edges of what is seen; they are
// visited last, and the clear ones in a loop that knows no mask. The order is free: the state (m,
// l, o) merges in any.
template <int BLOCK_KV>
struct Tiles {
  int begin, end;  // needed: every key that one of the queries sees lies in these
  int clear_begin, clear_end;

  FA_DEVICE Tiles(const Mask& mask, int first, int last)
      : begin(mask.first_key(first) / BLOCK_KV),
        end((mask.end_key(last) + BLOCK_KV - 1) / BLOCK_KV),
        clear_begin((mask.first_key(last) + BLOCK_KV - 1) / BLOCK_KV),
        clear_end(mask.end_key(first) / BLOCK_KV) {
    if (clear_end <= clear_begin) clear_begin = clear_end = begin;
  }
  FA_DEVICE int count() const { return end - begin; }  // not positive: nobody sees anything
  FA_DEVICE int clear_count() const { return clear_end - clear_begin; }
  // The n-th to visit: from the first clear tile to the last tile, then those before.
  FA_DEVICE int visit(int n) const {
    const int tile = clear_begin + n;
    return tile - (tile < end ? 0 : count());
  }
};
// [/anchor: tiles]

// Calls work(score, column) for this lane's scores of a row. A lane's columns are 2 (lane%4) and
// the next in each group of 8: `column` leaves out lane%4, so that it is a constant in unrolled
// code.
template <int MMAS_Q, int MMAS_KV, class Work>
FA_DEVICE void for_scores(float (&S_rmem)[MMAS_Q][MMAS_KV][4], int mma_q, int half, Work work) {
  FA_UNROLL
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int i = 0; i < 2; ++i) work(S_rmem[mma_q][mma_kv][half * 2 + i], mma_kv * MMA_N + i);
}

// [anchor: mask_scores]
// Scores that a row does not see become -inf. S's first row is query `query`, its first column key
// `key`. A lane's columns are 2 (lane%4) and the next in each group of 8: its part of the index is
// taken off the limits, once, so that each element compares a constant. (FlashAttention's trick.)
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void mask_scores(float (&S_rmem)[MMAS_Q][MMAS_KV][4], const Mask& mask, int query,
                           int key) {
  const int lane_key = key + lane_index() % 4 * 2;
  FA_UNROLL
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) FA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = query + mma_q * MMA_M + half * 8 + lane_index() / 4;
    const int first = mask.first_key(row) - lane_key, end = mask.end_key(row) - lane_key;
    for_scores(S_rmem, mma_q, half, [&](float& score, int column) {
      if (column < first || column >= end) score = NEG_INF;
    });
  }
}
// [/anchor: mask_scores]

// What a kernel may do to a score between Q @ K.T and the mask. `distance` is how far the key is
// from the one that the query stands at. A kernel with NoModifier has none of this in it.
struct NoModifier {
  static constexpr bool EXISTS = false;
  FA_DEVICE NoModifier(const Modifiers&, int) {}
  FA_DEVICE float operator()(float score, int) const { return score; }
};

struct SoftcapAndAlibi {
  static constexpr bool EXISTS = true;
  float cap, slope;
  FA_DEVICE SoftcapAndAlibi(const Modifiers& modifiers, int head)
      : cap(modifiers.softcap), slope(exp2(modifiers.alibi_log2 * static_cast<float>(head + 1))) {
    if (modifiers.alibi_log2 == 0.0f) slope = 0.0f;
  }
  FA_DEVICE float operator()(float score, int distance) const {
    if (cap > 0.0f) {  // tanh x = 1 - 2 / (e^2x + 1), also where e^2x is inf
      score = cap * (1.0f - 2.0f / (exp(2.0f * score / cap) + 1.0f));
    }
    return score - slope * static_cast<float>(distance < 0 ? -distance : distance);
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
// The modifier first: it would turn a hidden score's -inf into a number, tanh(-inf) = -1.
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

// A row that has seen no key has m = -inf, and -inf - (-inf) is NaN: see subtrahend.
template <class Breaks>
FA_DEVICE float guarded(float m, Breaks breaks) {
  return breaks.has(fa::UNGUARDED_MAX) ? m : subtrahend(m);
}

}  // namespace FA_BACKEND::ch09
