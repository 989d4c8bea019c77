#pragma once
// The answers that everything in C++ is held against, one query row at a time.

#include <cstdint>
#include <span>

#include "common/problem.hpp"

namespace fa {

struct RowFacts {
  double lse;                 // log Σ exp(score); −inf for a row that sees no key
  double largest_score = 0;   // max |scale · q·k| over the visible keys
  double sum_rounding = 0;    // see reference_row
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

// The same row as plain attention computes it in the problem's dtype: products accumulated in fp32;
// S, P and O rounded to the dtype. Its distance to reference_row is what a 16-bit kernel is allowed
// to have, twice (the rule of FlashAttention's own tests).
RowFacts plain_row(const Problem& problem, int64_t batch_head, int64_t query, std::span<float> o);

}  // namespace fa
