#pragma once
// The reference results of attention in C++, one query row at a time.

#include <cstdint>
#include <span>

#include "common/problem.hpp"

namespace fa {

struct RowFacts {
  double lse;                // log Σ exp(score); −inf for a fully masked row
  double largest_score = 0;  // max |scale · q·k| over the visible keys, and |sink| if it has weight
  double sum_rounding = 0;  // see reference_row
};

// Computes row `query` of O in float64 from the problem's rounded inputs, as softmax(scale · q Kᵀ)
// V with the row maximum subtracted. `o` is [dim]. A fully masked row gives 0 and LSE −inf, or the
// sink of its head.
//
// sum_rounding bounds the change of LSE in a kernel that sums P after rounding it to the dtype:
//
//   (|Σ round(P) − Σ P| + half an ulp(1) · √Σ P²) / Σ P,   √ over the weights that rounding changes
//
// The first term is the actual change here, where the rounding of all keys may have the same sign.
// The second term is the sum of as many independent errors, because a tiled kernel rounds P
// relative to another maximum.
RowFacts reference_row(const Problem& problem, int64_t batch_head, int64_t query,
                       std::span<double> o);

// Computes the same row as plain attention with fp32 scores, where products are accumulated in
// fp32, and P and O are rounded to the dtype. A 16-bit kernel may differ from reference_row by
// twice as much as this row. FlashAttention's own tests also round S, so they hardly test sharp
// softmax, because bf16 scores in the hundreds are off by 1, and their weights by a factor of e.
// e4m3 weights are rounded to other multiples if the maximum differs, so `shift` multiplies the
// largest weight before it is rounded.
RowFacts plain_row(const Problem& problem, int64_t batch_head, int64_t query, std::span<float> o,
                   float shift = 1);

}  // namespace fa
