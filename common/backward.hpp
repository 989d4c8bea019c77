#pragma once
// Checks a backward pass, that is, dQ, dK and dV from Q, K, V and dO.

#include <cstdint>
#include <span>
#include <string>

#include "common/check.hpp"
#include "common/problem.hpp"

namespace fa {

// Comparison of one gradient with float64.
struct GradientComparison {
  Comparison values;
  int64_t rows = 0, rows_checked = 0;
  double plain_error = 0;     // max error of the backward pass of plain attention
  double fp32_error = 0;      // the terms of the bound that come from fp32 arithmetic in every
                              // dtype
  double rms_bound = 0;       // bound for values.rms_error
  double rms_expected = 0;    // over the queries that see a key, or the keys that a query sees
  bool inconclusive = false;  // no error found, but the bound is too wide to prove anything
  bool subnormal = false;     // all values are below the normal numbers of the dtype

  bool agrees() const { return values.passed() && values.rms_error <= rms_bound; }
};

struct GradientCheck {
  GradientComparison dq, dk, dv;
  Comparison d_sinks;        // with sinks
  double largest_score = 0;  // max |scale · q·k| of the checked rows

  bool agrees() const {
    return dq.agrees() && dk.agrees() && dv.agrees() && d_sinks.mismatches == 0;
  }
  bool inconclusive() const {
    return agrees() && (dq.inconclusive || dk.inconclusive || dv.inconclusive);
  }
  bool passed() const { return agrees() && !inconclusive(); }
};

// Compares dQ [batch, heads, q, dim], dK and dV [batch, kv_heads, kv, dim] with float64. dO has the
// shape of dQ. The bound for each element is
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
// The same rule applies to the root mean square over all elements, with lean / √elements at the
// end. Lq counts the queries of all heads that share a head of K and V.
//
// The third term covers the rounding that remains of dP − D where the two cancel, as they do with
// one key: 16 units of fp32's 2⁻²⁴ for two sums of dim products and the O in one of them. The
// weights of a row add up to 1, so this error reaches dQ whole. dK receives it once per query,
// independently. The next terms cover fp32's rounding of P and of the sums,
//
//   e(L) = (scale · max‖q‖ · max‖k‖ + 2 · max|score| + max|LSE| + 2 √Lkv + 2 √L) · 2⁻²⁴
//
// for the dim products of a score, its scaling, a stored LSE, the sum in it, and the gradient's own
// sum of L terms in another order. It is multiplied by sums of absolute values, because the terms
// of dQ and dK cancel, so the result itself says nothing about their size. These terms decide in
// fp32 and are small compared with 16-bit rounding.
//
// The last term is for few queries. The O in D is rounded, which moves D_i by about half an ulp(1)
// · (√Σ (dO O)² + √Σ (P dP)²), where the second root applies to kernels that round P before they
// divide by the sum. All dS of query i move with D_i, by −P. Over many queries this averages out,
// and twice its effect on plain attention is enough. With one query, plain attention may have an
// accidentally small error, and a correct kernel would fail once in 20 times. Therefore the bound
// includes how much two such moves may differ, see Lean.
//
// A bound for the root mean square above a quarter of the gradient's own root mean square proves
// nothing, so the check is then inconclusive and does not pass. (For O this test uses the bound per
// element. Gradients are uneven, because a key that most queries attend to has elements a hundred
// times as large as others, with roundings as large as those others.) The test does not apply where
// the gradient's root mean square is at most the third term or, for dV, 0. For example, with one
// key dQ = dK = 0, and only fp32's rounding noise may remain.
//
// Large problems are checked on a sample of about `budget` operations, which are all rows of some
// heads of K and V (the first, the last and evenly spread ones). If one head is too much, the
// sample is evenly spread rows of dQ, dK and dV of one head that the seed chooses, at least 64 of
// each. (A row of dK needs the LSE of every query, which alone exceeds the budget at lengths above
// about 4000 with dim 128.) Every element is checked for NaN and Inf.
GradientCheck check_gradients(const Problem& problem, std::span<const float> d_o,
                              std::span<const float> d_q, std::span<const float> d_k,
                              std::span<const float> d_v, uint64_t seed = 0,
                              double budget = kSampleBudget);

// Compares the gradients of the sinks, [H], with float64, from the O and LSE of which the backward
// pass computed them. The bound is (2⁻¹⁸ + 2⁻²² max|LSE|) · Σ P Σ|dO O| over the rows of a head,
// for fp32's rounding of P, of D and of the sum.
Comparison check_sink_gradients(const Problem& problem, std::span<const float> o,
                                std::span<const float> lse, std::span<const float> d_sinks);

// Returns text: one line with the verdict, then the errors, if there are any.
std::string describe(const GradientCheck& check, const Problem& problem);

// Returns the verdict on dQ, dK and dV. Its report has one report per gradient. The values next to
// these reports are those of the gradient that exceeds its bound most or comes closest to it.
Verdict check_backward(const Tensors& tensors, uint64_t seed);

}  // namespace fa
