// Compares the result of a run with a direct computation in float64:
//
//   .check matmul      a[n][m], b[m][p] -> c[n][p]         c = a·b
//   .check softmax     x[n] -> out[n]                      out_i = e^(x_i − m) / Σ_j e^(x_j − m)
//   .check attention   q[d], k[n][d], v[n][d] -> o[d]      o = softmax(k·q)·v; the scale is in q
//   .check ratio       x[2] -> out[1]                      out_0 = e^(x_0 − x_1)
//   .check sum         x[n] -> out[1]                      out_0 = Σ x_i
//   .check variance    x[n] -> out[1]                      out_0 = Σ (x_i − mean)² / (n − 1)
#pragma once

#include <string>

#include "machine.hpp"

namespace ch01 {

struct Verdict {
  int compared = 0;
  int nonfinite = 0;           // number of NaN, Inf and unwritten cells
  int mismatches = 0;          // cells outside the bound of fp32 rounding, including nonfinite ones
  double max_abs_error = 0;    // NaN if any difference is NaN
  std::string first_bad;       // a sentence about the first mismatch, or empty
  std::string broken_promise;  // a sentence if the file requires another number of cycles, or empty
  bool passed() const { return compared > 0 && mismatches == 0 && broken_promise.empty(); }
};

// Compares the run's output with the direct computation. Throws fa::InputError if the program's
// arrays do not have the names and shapes of this check.
Verdict verify(const Program& program, const Run& run);

}  // namespace ch01
