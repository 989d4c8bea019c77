#pragma once
// What a kernel loses that rounds its inputs further: the answer that it gives, beside the one that
// was asked for.

#include <cstdint>
#include <span>
#include <vector>

#include "common/operation.hpp"

namespace fa {

// O against float64 on the inputs as they were given. SageAttention's three measures, and how large
// the first should be.
struct Accuracy {
  double rmse = 0;           // root mean square of the differences
  double cosine = 0;         // of the angle between both, as vectors
  double relative_l1 = 0;    // sum |difference| / sum |expected|
  double rmse_expected = 0;  // see accuracy_of
  double score_error = 0;    // likewise: root mean square of σ, weighted by p
  int64_t rows = 0;          // looked at

  // Rounding that moves scores by more than 1 leaves nothing of softmax.
  bool conclusive() const { return score_error <= 1; }
  // NaN does not pass.
  bool passed(double rms_bound) const {
    return conclusive() && rmse <= 2 * rmse_expected + rms_bound;
  }
};

// `asked`, and what became of Q, K and V in `rounded`; O is [batch, heads, q, dim].
//
// Rounding changes q_i by δq_i and k_j by δk_j, as if at random. Score ij then changes by a random
// number of variance
//
//   σ²_ij = scale² (|δq_i|² |k_j|² + |δk_j|² |q_i|²) / dim
//
// and a row's output, to first order, by Σ_j p_ij δs_ij (v_j − o_i): of variance Σ_j p² σ² (v −
// o)², if the changes are independent. Those of V add Σ_j p² |δv_j|². rmse_expected is the root of
// its mean. What is the same for all keys (a mean that K lost, and q_i times it) changes nothing,
// and is taken off first.
Accuracy accuracy_of(const Problem& asked, const Problem& rounded, std::span<const float> o,
                     uint64_t seed);

// The verdict of such a kernel: O and LSE within what rounding P and O costs of the exact answer to
// `rounded` (check_output), and O no farther from the answer to `asked` than that and twice what is
// expected.
Verdict check_rounding(const Problem& asked, const Problem& rounded,
                       std::span<const std::vector<float>> outputs, uint64_t seed);

}  // namespace fa
