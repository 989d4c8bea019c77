#pragma once
// Decides which keys a query sees, and which tiles of keys a tile of queries needs. Chapter 09
// teaches it.

#include "common/kernels/softmax.hpp"

namespace FA_BACKEND {

constexpr int UNLIMITED = 1 << 29;  // side of a window that is longer than any sequence

// [anchor: mask]
// The last query is aligned with the last key, so query i is aligned with key i + diagonal, where
// diagonal is len_kv - len_q. It sees that key, `left` keys before it and `right` keys after it.
// A causal mask has left UNLIMITED and right 0.
struct Mask {
  int len_kv, diagonal;
  int left, right;

  // Query i sees keys [first_key(i), end_key(i)). It sees none if that range is empty, because the
  // end may be negative, and the first may be past the last key. Both grow with i.
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
// The tiles of BLOCK_KV keys that queries [first, last] need. In a clear tile, every one of these
// queries sees every key, so no mask is needed. The other tiles are at the two ends of the range.
// They are visited last, so that a loop without a mask can handle the clear tiles. Any order is
// correct, because the states (m, l, o) merge in any order.
template <int BLOCK_KV>
struct Tiles {
  int begin, end;  // tiles that contain all visible keys
  int clear_begin, clear_end;

  FA_DEVICE Tiles(const Mask& mask, int first, int last)
      : begin(mask.first_key(first) / BLOCK_KV),
        end((mask.end_key(last) + BLOCK_KV - 1) / BLOCK_KV),
        clear_begin((mask.first_key(last) + BLOCK_KV - 1) / BLOCK_KV),
        clear_end(mask.end_key(first) / BLOCK_KV) {
    if (clear_end <= clear_begin) clear_begin = clear_end = begin;
  }
  FA_DEVICE int count() const { return end - begin; }  // not positive if no query sees a key
  FA_DEVICE int clear_count() const { return clear_end - clear_begin; }
  // Returns the n-th tile to visit, in the order from the first clear tile to the last tile, then
  // the earlier ones.
  FA_DEVICE int visit(int n) const {
    const int tile = clear_begin + n;
    return tile - (tile < end ? 0 : count());
  }
};
// [/anchor: tiles]

// Calls work(score, column) for this lane's scores of a row. A lane's columns are 2 (lane%4) and
// the next in each group of 8. `column` leaves out the part 2 (lane%4), so that it is a constant in
// unrolled code.
template <int MMAS_Q, int MMAS_KV, class Work>
FA_DEVICE void for_scores(float (&S_rmem)[MMAS_Q][MMAS_KV][4], int mma_q, int half, Work work) {
  FA_UNROLL
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int i = 0; i < 2; ++i) work(S_rmem[mma_q][mma_kv][half * 2 + i], mma_kv * MMA_N + i);
}

// [anchor: mask_scores]
// Sets masked scores to -inf. The first row of S is query `query`, its first column key `key`. A
// lane's columns are 2 (lane%4) and the next in each group of 8. The lane's part of the index is
// subtracted from the limits once, so that each element is compared with a constant.
// (FlashAttention's trick.)
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

}  // namespace FA_BACKEND
