#pragma once
// The answers that everything in C++ is held against, one query row at a time.

#include <cstdint>
#include <span>

#include "common/problem.hpp"

namespace fa {

struct RowFacts {
  double lse;                // log Σ exp(score); −inf for a row that sees no key
  double largest_score = 0;  // max |scale · q·k| over the visible keys
  double sum_rounding = 0;   // see reference_row
};

// Row `query` of O in float64, from the problem's rounded inputs: softmax(scale · q Kᵀ) V with the
// row maximum subtracted. `o` is [dim]. A row without a visible key gives 0 and LSE −inf.
//
// sum_rounding is what a kernel may change in LSE that sums P as rounded to the problem's dtype:
//
//   (|Σ round(P) − Σ P| + half an ulp(1) · √Σ P²) / Σ P,   √ over the weights that rounding changes
//
// First what it does here, where all keys lean the same way; then what as many independent errors
// add up to, since a kernel in tiles rounds P relative to another maximum.
RowFacts reference_row(const Problem& problem, int64_t batch_head, int64_t query,
                       std::span<double> o);

// The same row as plain attention computes it with fp32 scores: products accumulated in fp32; P and
// O rounded to the problem's dtype. Its distance to reference_row, twice, is what a 16-bit kernel
// is allowed to have. FlashAttention's own tests round S as well, and then hardly see sharp
// softmax: bf16 scores in the hundreds are off by 1, their weights by a factor of e.
// Weights in e4m3 are multiples of another number with another maximum: `shift` is what the largest
// is multiplied by before it is rounded.
RowFacts plain_row(const Problem& problem, int64_t batch_head, int64_t query, std::span<float> o,
                   float shift = 1);

}  // namespace fa
