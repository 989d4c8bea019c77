#pragma once
// The intermediate result of softmax(x) @ v for a part of the keys, and the merge of two such
// results.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ch02 {

template <class Real>
inline const Real kInfinity = Real(std::numeric_limits<double>::infinity());

// [anchor: exp_minus]
// Returns e^(x − m). A hidden key (x = −inf) has weight 0, even if no key has been seen (m = −inf),
// where −inf − (−inf) would be NaN.
template <class Real>
Real exp_minus(Real x, Real m) {
  using std::exp;
  return x == -kInfinity<Real> ? Real(0) : exp(x - m);
}
// [/anchor: exp_minus]

// [anchor: state]
template <class Real>
struct AttentionState {
  Real m = -kInfinity<Real>;  // max x
  Real l = 0;                 // Σ e^(x − m)
  std::vector<Real> o;        // Σ e^(x − m) v

  // The state before the first key, which is the identity of merge.
  explicit AttentionState(int64_t dim) : o(dim) {}
  // The state of a single key with score x and value v.
  AttentionState(Real x, std::span<const Real> v)
      : m(x), l(exp_minus(x, x)), o(v.begin(), v.end()) {  // l = 1, or 0 for a hidden key
    for (Real& value : o) value *= l;
  }
};
// [/anchor: state]

// [anchor: merge]
// Rescales both states to the larger maximum and adds them.
template <class Real>
AttentionState<Real> merge(const AttentionState<Real>& a, const AttentionState<Real>& b) {
  AttentionState<Real> both(static_cast<int64_t>(a.o.size()));
  both.m = std::max(a.m, b.m);
  const Real rescale_a = exp_minus(a.m, both.m), rescale_b = exp_minus(b.m, both.m);
  both.l = rescale_a * a.l + rescale_b * b.l;
  for (size_t d = 0; d < a.o.size(); ++d) both.o[d] = rescale_a * a.o[d] + rescale_b * b.o[d];
  return both;
}
// [/anchor: merge]

}  // namespace ch02
