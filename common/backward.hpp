#pragma once
// The backward pass as an operation: dQ, dK and dV from Q, K, V and dO, and the check of them.

#include <cstdint>
#include <span>
#include <string>

#include "common/check.hpp"
#include "common/operation.hpp"
#include "common/problem.hpp"

namespace fa {

// One gradient against float64.
struct GradientComparison {
  Comparison values;
  int64_t rows = 0, rows_checked = 0;
  double plain_error = 0;     // max error of plain attention's backward pass
  double fp32_error = 0;      // the terms of the bound that are fp32's in every dtype
  double rms_bound = 0;       // for values.rms_error
  double rms_expected = 0;    // over the rows that see a key, or that a query sees
  bool inconclusive = false;  // nothing is wrong, but the bound is too wide to tell
  bool subnormal = false;     // all of it is below the dtype's normal numbers

  bool agrees() const { return values.passed() && values.rms_error <= rms_bound; }
};

struct GradientCheck {
  GradientComparison dq, dk, dv;
  double largest_score = 0;  // max |scale · q·k| of the rows that were checked

  bool agrees() const { return dq.agrees() && dk.agrees() && dv.agrees(); }
  bool inconclusive() const {
    return agrees() && (dq.inconclusive || dk.inconclusive || dv.inconclusive);
  }
  bool passed() const { return agrees() && !inconclusive(); }
};

// Holds dQ [batch, heads, q, dim], dK and dV [batch, kv_heads, kv, dim] against float64. dO is like
// dQ. The bound for each element:
//
//   2 · (max error of plain attention's backward pass, see plain_gradients)
//   + one unit in the last place of the dtype at the largest |gradient|
//   + dQ: 2⁻²⁰ · scale · max(|dP| + |D|) · max|K|
//     dK: 2⁻²⁰ · scale · max(|dP| + |D|) · max|Q| · √Lq
//   + dQ: e(Lkv) · scale · max Σⱼ|dS| · max|K|
//     dK: e(Lq) · scale · max Σᵢ|dS| · max|Q|
//     dV: e(Lq) · max Σᵢ P · max|dO|
//   + dQ, dK: 2 · lean / √dim
//
// and the same rule for the root mean square over all of them, with lean / √elements at the end. Lq
// counts the queries of all heads that share a head of K and V.
//
// The third line is what is left of dP − D where the two cancel, as with one key: 16 units of
// fp32's 2⁻²⁴ for two sums of dim products and the O in one of them. Weights of a row add up to 1,
// so it comes whole to dQ; into dK it comes once from each query, independently. The next lines
// are what fp32 makes of P and of the sums,
//
//   e(L) = (scale · max‖q‖ · max‖k‖ + 2 · max|score| + max|LSE| + 2 √Lkv + 2 √L) · 2⁻²⁴
//
// with a score's dim products, its scaling, an LSE that is stored, the sum in it, and the
// gradient's own sum of L terms in another order. Against it stand sums of absolute values: terms
// of dQ and dK cancel, so the result says nothing about them. These lines decide in fp32, and are
// small next to 16-bit roundings.
//
// The last line is for few queries. The O in D is rounded, in which D_i moves by about half an
// ulp(1) · (√Σ (dO O)² + √Σ (P dP)²), the latter where a kernel rounds P before it divides by the
// sum; and all of query i's dS move with it, by −P. Over many queries this averages out, and twice
// what it does to plain attention is enough. For one query plain attention may be lucky: a right
// kernel would fail once in 20 times. Hence what two such moves may differ by, see Lean.
//
// A bound for the root mean square above a quarter of the gradient's own proves nothing:
// inconclusive, which is no pass. (Not the bound for each element, as for O: gradients are uneven.
// A key that most queries look at has elements a hundred times the others', and their roundings
// are as large as those.) It does not apply where the gradient's root mean square is no more than
// the third line or, for dV, 0: with one key dQ = dK = 0, and only fp32's noise may be there.
//
// Large problems are checked on a sample, of about `budget` operations: all rows of some heads of K
// and V (first, last, and evenly spread ones), or, if that is too much for one head, evenly spread
// rows of dQ and of dK and dV of one that the seed chooses, at least 64 of each. (A row of dK needs
// the LSE of every query: from lengths of about 4000 at dim 128 that alone is more than this.)
// Every element is looked at for NaN and Inf.
GradientCheck check_gradients(const Problem& problem, std::span<const float> d_o,
                              std::span<const float> d_q, std::span<const float> d_k,
                              std::span<const float> d_v, uint64_t seed = 0,
                              double budget = kSampleBudget);

// For people: a line with the verdict, then what is wrong, if anything is.
std::string describe(const GradientCheck& check, const Problem& problem);

// Input dO in problem.more[0]; outputs dQ, dK and dV, in this order. Counted as 2.5 times the
// forward pass: five products for its two. "check" of --json holds one report for each gradient;
// the values beside them are of the one that is farthest from its bound, or nearest to it.
const Operation& backward_operation();

}  // namespace fa
