#pragma once
// Measures how much accuracy a kernel loses by rounding its inputs further, against the exact
// answer for the inputs that it was given.

#include <cstdint>
#include <span>
#include <vector>

#include "common/check.hpp"

namespace fa {

// Accuracy of O against float64 on the inputs before rounding, by SageAttention's three measures,
// and the size that the first one should have.
struct Accuracy {
  double rmse = 0;           // root mean square of the differences
  double cosine = 0;         // cosine of the angle between both, as vectors
  double relative_l1 = 0;    // sum |difference| / sum |expected|
  double rmse_expected = 0;  // expected rmse, see accuracy_of
  double score_error = 0;    // root mean square of σ, weighted by p, see accuracy_of
  int64_t rows = 0;          // rows compared

  // If rounding moves scores by more than 1, the softmax says nothing about the original input.
  bool conclusive() const { return score_error <= 1; }
  // False for NaN.
  bool passed(double rms_bound) const {
    return conclusive() && rmse <= 2 * rmse_expected + rms_bound;
  }
};

// Compares O [batch, heads, q, dim] with the exact answer for `asked`. `rounded` holds Q, K and V
// after the kernel's rounding.
//
// Rounding changes q_i by δq_i and k_j by δk_j, which we treat as random. Score ij then changes by
// a random number of variance
//
//   σ²_ij = scale² (|δq_i|² |k_j|² + |δk_j|² |q_i|²) / dim
//
// To first order, a row's output changes by Σ_j p_ij δs_ij (v_j − o_i). If the changes are
// independent, its variance is Σ_j p² σ² (v − o)². The changes of V add Σ_j p² |δv_j|².
// rmse_expected is the root of the mean of both. A change that is the same for all keys (for
// example a mean subtracted from K, which changes all scores of q_i alike) has no effect on the
// softmax, so it is removed first.
Accuracy accuracy_of(const Problem& asked, const Problem& rounded, std::span<const float> o,
                     uint64_t seed);

// Returns the verdict on a kernel that rounds its inputs. O and LSE must be as close to the exact
// answer for `rounded` as rounding P and O allows (check_output). The distance of O to the answer
// for `asked` must be at most that bound plus twice the expected error. If only the second fails,
// the verdict is INCONCLUSIVE, because the kernel is right, but the input's rounding errors are not
// independent.
Verdict check_rounding(const Tensors& asked, const Problem& rounded, uint64_t seed);

}  // namespace fa
