#pragma once
// The checker. A NaN must never pass, so every comparison is written as !(difference <= bound), and
// maxima are computed so that they keep a NaN.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "common/json_report.hpp"
#include "common/problem.hpp"

namespace fa {

inline constexpr double kSampleBudget = 2e10;  // maximum number of operations of a check
inline constexpr double kWidestBound = 0.25;   // as a fraction of the output's root mean square

// Returns the larger value, or NaN if either is NaN. std::max would drop a NaN in its second
// argument.
inline double max_keeping_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

// Returns max |a[i] - b[i]|, or NaN if one difference is NaN or the sizes differ.
template <class A, class B>
double largest_difference(const A& a, const B& b) {
  double result = std::size(a) == std::size(b) ? 0 : NAN;
  for (size_t i = 0; i < std::min(std::size(a), std::size(b)); ++i) {
    result = max_keeping_nan(std::abs(double(a[i]) - double(b[i])), result);
  }
  return result;
}

// printf prints the sign of a NaN, which differs between machines.
inline double unsigned_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

// Returns max |value|. The inputs of a problem are finite.
double largest(std::span<const float> values);

// Returns `count` of the numbers [0, total), ascending and evenly spread, or all of them if there
// are no more. The first and the last are among them, unless count is 1. The others depend on the
// seed.
std::vector<int64_t> spread_sample(int64_t total, int64_t count, uint64_t seed);

// Comparison of one tensor with its reference.
struct Comparison {
  bool same_shape = true;
  int64_t elements = 0;      // number of compared elements
  int64_t nonfinite = 0;     // NaN where the reference is not NaN, or Inf where the reference is
                             // finite
  int64_t mismatches = 0;    // elements not within the bound, including the nonfinite ones
  double max_abs_error = 0;  // NaN if any difference is NaN
  double rms_error = 0;      // root mean square of the differences, or NaN if any is NaN
  double relative_error = 0;  // ‖got − expected‖ / ‖expected‖, or NaN if any difference is NaN
  double bound = 0;
  int64_t first_bad = -1;        // flat index of the first mismatch, or -1
  double expected = 0, got = 0;  // values at first_bad

  bool passed() const { return same_shape && elements > 0 && mismatches == 0; }
};

// Compares two tensors [rows, cols] element by element. An infinite expected value must be met
// exactly.
Comparison compare(View<const float> got, View<const double> expected, double bound);

// The verdict on an output.
struct CheckResult {
  Comparison o, lse;  // lse.elements is 0 if there is no LSE
  int64_t rows = 0, rows_checked = 0;
  double plain_error = 0;     // max error of plain attention, see check_output
  double rms_bound = 0;       // bound for o.rms_error
  double rms_expected = 0;    // root mean square of O in the rows that see a key
  bool inconclusive = false;  // no error found, but the bound is too wide to prove anything
  std::string cause;          // property of the input that makes it inconclusive or may make O
                              // overflow; or empty

  bool agrees() const {
    return o.passed() && o.rms_error <= rms_bound && (lse.elements == 0 || lse.passed());
  }
  bool passed() const { return agrees() && !inconclusive; }
};

// Compares O [batch, heads, q, dim] and LSE [batch, heads, q] (unless empty) with float64. The
// bound for each element is
//
//   bound = 2 · (max error of plain attention: S in fp32, P and O rounded to the dtype)
//         + one unit in the last place of the dtype at the largest |O|
//         + n · max |score| · 2⁻²⁴ · max |V|     (e^s magnifies the rounding of fp32 scores)
//         + 2 · √Lkv · 2⁻²⁴ · max |O|            (fp32 sums in another order)
//
// with n = max(2, dim / 64), because a score is a sum of dim products. The same rule applies to the
// root mean square over all elements, which detects a small error of the same sign everywhere that
// the bound per element would accept. It adds half an ulp(1) · |O|, divided by the root of the
// number of rows over which it averages out, because a row with one large weight is off as a whole
// by the rounding of that weight, but plain attention, whose largest weight is 1, makes no such
// error. LSE is fp32 in every dtype. Its bound is
//
//   2 · (max LSE error of plain attention + the largest sum_rounding, see reference_row)
//         + four units in the last place of fp32 at the largest |LSE|
//         + (n · max |score| + 2 · √Lkv) · 2⁻²⁴
//
// With e4m3 weights, the error of plain attention is 1.25 times the worst of eight variants, whose
// largest weights are between half of e4m3_weight and 1.7 times it. One of them represents a row's
// largest weight exactly. A kernel that uses another maximum rounds it like any other weight, by up
// to a sixteenth.
//
// If Q and K are e4m3, the tensor core truncates products 13 bits below the largest of them and of
// their sum so far. LSE may then be off by
//
//         + 2 · 33/32 · dim · 2⁻¹³ · scale · max |q| · max |k| + 2⁻²⁰
//
// (33 terms per 32 products, each truncated by up to one bit toward zero). O has no such term,
// because softmax cancels an error that all scores of a row share, and the remainder is below the
// rounding of the weights.
//
// A bound above a quarter of the root mean square of O proves nothing, so the check is then
// inconclusive and does not pass. (This does not apply where the bound is the smallest number of
// the dtype, because then O is 0 and must be 0.) With e4m3 weights the test uses the bound of the
// root mean square, as for gradients. With errors of some percent, the largest of thousands is a
// quarter of O wherever the mean of O is 0, even in a correct kernel, but their root mean square is
// still known well. reference/check.py has the same rule, and reference/test_golden.cpp compares
// the two.
//
// Large problems are checked on a sample of rows (the first, the last, and evenly spread ones with
// a random offset; about 2·10¹⁰ operations). Every element of O is checked for NaN and Inf.
CheckResult check_output(const Problem& problem, std::span<const float> o,
                         std::span<const float> lse, uint64_t seed = 0);

// Returns text: one line with the verdict, then the errors, if there are any.
std::string describe(const CheckResult& result, const Shape& shape);

// The result of comparing the outputs of a program with the reference.
struct Verdict {
  bool passed = false;
  std::string text;    // text: one line, then the errors, if there are any
  JsonPointer report;  // "check" of --json
};

// Returns the verdict on O and LSE (unless empty).
Verdict check_forward(const Problem& problem, std::span<const float> o, std::span<const float> lse,
                      uint64_t seed);
inline Verdict check_forward(const Tensors& tensors, uint64_t seed) {
  return check_forward(tensors, tensors.o, tensors.lse, seed);
}

// Returns the operations of two matrix products for the scores that the mask leaves. By convention,
// a causal mask counts as half of all scores.
double forward_flops(const Problem& problem);

}  // namespace fa
