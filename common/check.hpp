#pragma once
// The checker. A NaN must never pass: every comparison is written as !(difference <= bound), and
// maxima are taken so that a NaN stays visible.

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/problem.hpp"

namespace fa {

inline constexpr double kSampleBudget = 2e10;  // operations that a check may cost
inline constexpr double kWidestBound = 0.25;   // of the output's root mean square

// std::max would drop a NaN on its right.
inline double max_keeping_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }
// printf writes a NaN's sign, which differs from machine to machine.
inline double unsigned_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

// max |value| of a problem's inputs, which are finite.
double largest(std::span<const float> values);

// `count` of the numbers [0, total), ascending and evenly spread; all of them if there are no more.
// The first and the last are among them, unless count is 1; the others depend on the seed.
std::vector<int64_t> spread_sample(int64_t total, int64_t count, uint64_t seed);

// How one tensor compares to its reference.
struct Comparison {
  bool same_shape = true;
  int64_t elements = 0;       // compared
  int64_t nonfinite = 0;      // of them NaN where the reference is none, or Inf where it is finite
  int64_t mismatches = 0;     // not within the bound; nonfinite ones included
  double max_abs_error = 0;   // NaN once any difference is
  double rms_error = 0;       // root mean square of the differences; NaN likewise
  double relative_error = 0;  // ‖got − expected‖ / ‖expected‖; NaN likewise
  double bound = 0;
  int64_t first_bad = -1;        // flat index
  double expected = 0, got = 0;  // there

  bool passed() const { return same_shape && elements > 0 && mismatches == 0; }
};

// Element by element, [rows, cols] each. An infinite expectation must be met exactly.
Comparison compare(View<const float> got, View<const double> expected, double bound);

// The verdict on a whole output.
struct CheckResult {
  Comparison o, lse;  // lse.elements is 0 where there is none
  int64_t rows = 0, rows_checked = 0;
  double plain_error = 0;     // max error of plain attention, see below
  double rms_bound = 0;       // for o.rms_error
  double rms_expected = 0;    // of O in the rows that see a key
  bool inconclusive = false;  // nothing is wrong, but the bound is too wide to tell
  std::string cause;          // what in the input makes it so, or may make O overflow; or empty

  bool agrees() const {
    return o.passed() && o.rms_error <= rms_bound && (lse.elements == 0 || lse.passed());
  }
  bool passed() const { return agrees() && !inconclusive; }
};

// Holds O (and LSE, unless empty) against float64. O is [batch, heads, q, dim], LSE
// [batch, heads, q].
//
//   bound = 2 · (max error of plain attention: S in fp32, P and O rounded to the dtype)
//         + one unit in the last place of the dtype at the largest |O|
//         + n · max |score| · 2⁻²⁴ · max |V|     (fp32 scores: what e^s makes of their last bits)
//         + 2 · √Lkv · 2⁻²⁴ · max |O|            (fp32 sums in another order)
//
// for each element, with n = max(2, dim / 64), as a score is a sum of dim products; and the same
// rule for the root mean square over all of them: it catches what the first lets through, a small
// error that leans the same way everywhere. To that comes half an ulp(1) · |O|, as far as it does
// not average out over the rows: divided by their root. A row that has one large weight leans as
// a whole by that weight's rounding; plain attention, which rounds 1, has none there. LSE is fp32
// in every dtype; its bound:
//
//   2 · (max LSE error of plain attention + the largest sum_rounding, see reference_row)
//         + four units in the last place of fp32 at the largest |LSE|
//         + (n · max |score| + 2 · √Lkv) · 2⁻²⁴
//
// Where the weights are e4m3, it is 1.25 times the worst of eight plain attentions, whose largest
// weights are from half of e4m3_weight to 1.7 times it. A row's largest weight is exact in one of
// them; in a kernel whose maximum is another it is rounded as any other, by up to a sixteenth.
//
// And where Q and K are e4m3, whose products the tensor core cuts 13 bits below the largest of them
// and of their sum so far, LSE may be off by
//
//         + 2 · 33/32 · dim · 2⁻¹³ · scale · max |q| · max |k| + 2⁻²⁰
//
// (33 numbers for each 32 products, each cut by up to a bit, all of them toward zero). O has no
// such term: what all scores of a row lose, softmax does not see, and the rest is below the
// weights' own rounding.
//
// A bound above a quarter of the root mean square of O proves nothing: inconclusive, which is no
// pass. (Not so where the bound is the smallest number of the dtype: then O is 0, and must be.)
// Where the weights are e4m3, that holds for the bound of the root mean square, as it does for
// gradients: of errors of some percent the largest of thousands is a quarter of O where O's mean is
// 0, however right the kernel is, and what all of them together are is still known well.
// reference/check.py has the same rule; reference/test_golden.cpp holds the two together.
//
// Large problems are checked on a sample of rows (first, last, and evenly spread ones with a random
// offset; about 2·10¹⁰ operations), but every element of O is looked at for NaN and Inf.
CheckResult check_output(const Problem& problem, std::span<const float> o,
                         std::span<const float> lse, uint64_t seed = 0);

// For people: a line with the verdict, then what is wrong, if anything is.
std::string describe(const CheckResult& result, const Shape& shape);

}  // namespace fa
