// The direct computation that a run is held against, in float64.
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
  int nonfinite = 0;           // NaN or Inf, unwritten cells among them
  int mismatches = 0;          // further from float64 than fp32 rounding explains; nonfinite too
  double max_abs_error = 0;    // NaN once one difference is
  std::string first_bad;       // a sentence about the first mismatch
  std::string broken_promise;  // a sentence, if the file promises another number of cycles
  bool passed() const { return compared > 0 && mismatches == 0 && broken_promise.empty(); }
};

// Compares the run's output with the direct computation. Throws fa::InputError if the program's
// arrays do not have the names and shapes of the table above.
Verdict verify(const Program& program, const Run& run);

}  // namespace ch01
