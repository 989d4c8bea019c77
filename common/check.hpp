#pragma once
// The checker. A NaN must never pass: every comparison is written as !(difference <= bound), and
// maxima are taken so that a NaN stays visible.

#include <cstdint>
#include <span>
#include <string>

#include "common/problem.hpp"

namespace fa {

// How one tensor compares to its reference.
struct Comparison {
  bool same_shape = true;
  int64_t elements = 0;        // compared
  int64_t nonfinite = 0;       // of them NaN or Inf where the reference is finite
  int64_t mismatches = 0;      // not within the bound; nonfinite ones included
  double max_abs_error = 0;    // NaN once any difference is
  double rms_error = 0;        // root mean square of the differences; NaN likewise
  double relative_error = 0;   // ‖got − expected‖ / ‖expected‖; NaN likewise
  double bound = 0;
  int64_t first_bad = -1;      // flat index
  double expected = 0, got = 0;  // there

  bool passed() const { return same_shape && elements > 0 && mismatches == 0; }
};

// Element by element, [rows, cols] each. An infinite expectation must be met exactly.
Comparison compare(View<const float> got, View<const double> expected, double bound);

// The verdict on a whole output.
struct CheckResult {
  Comparison o, lse;            // lse.elements is 0 where there is none
  int64_t rows = 0, rows_checked = 0;
  double plain_error = 0;       // max error of plain attention in the same dtype
  double rms_bound = 0;         // for o.rms_error

  bool passed() const {
    return o.passed() && o.rms_error <= rms_bound && (lse.elements == 0 || lse.passed());
  }
};

// Holds O (and LSE, unless empty) against float64. O is [batch, heads, q, dim], LSE
// [batch, heads, q].
//
//   bound = 2 · (max error of plain attention in the same dtype, fp32 accumulation)
//         + one unit in the last place of the dtype at the largest |O|
//         + 2 · max |score| · 2⁻²⁴ · max |V|     (fp32 scores: what e^s makes of their last bit)
//
// for each element, and the same rule for the root mean square over all of them: it catches what
// the first lets through, a small error that leans the same way everywhere. LSE is fp32 in every
// dtype; its bound:
//
//   2 · (max LSE error of plain attention + the largest sum_rounding, see reference_row)
//         + four units in the last place of fp32 at the largest |LSE| + 2 · max |score| · 2⁻²⁴
//
// Large problems are checked on a sample of rows (first, last, and evenly spread ones with a random
// offset; about 2·10¹⁰ operations), but every element of O is looked at for NaN and Inf.
CheckResult check_output(const Problem& problem, std::span<const float> o,
                         std::span<const float> lse, uint64_t seed = 0);

// One or two lines for people: the verdict, and the first bad element if there is one.
std::string describe(const CheckResult& result, const Shape& shape);

}  // namespace fa
