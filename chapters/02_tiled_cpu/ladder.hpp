#pragma once
// Six algorithms for softmax and attention of one query. Each differs from the previous one by one
// idea. x[j] is the score of key j, and v[j] its value row. Every function returns log Σ eˣ. Real
// is float, double, or Counted (counted.hpp), which counts the operations.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "common/tensor.hpp"
#include "state.hpp"

namespace ch02 {

// The first three functions compute weights a = softmax(x), and a may be the same memory as x. Then
// `weighted_sum` computes o = a @ v. They need all of x and all of a in memory.

// Two passes over x. In fp32, e^x overflows beyond x = 88.7.
template <class Real>
Real native_softmax(std::span<const Real> x, std::span<Real> a) {
  using std::exp, std::log;
  Real l = 0;
  for (size_t j = 0; j < x.size(); ++j) l += exp(x[j]);
  for (size_t j = 0; j < x.size(); ++j) a[j] = exp(x[j]) / l;
  return log(l);
}

// [anchor: safe]
// Three passes. Softmax does not change if every score changes by the same amount, so the maximum
// is subtracted first.
template <class Real>
Real safe_softmax(std::span<const Real> x, std::span<Real> a) {
  using std::log;
  Real m = -kInfinity<Real>, l = 0;
  for (size_t j = 0; j < x.size(); ++j) m = std::max(m, x[j]);
  for (size_t j = 0; j < x.size(); ++j) l += exp_minus(x[j], m);
  for (size_t j = 0; j < x.size(); ++j) a[j] = exp_minus(x[j], m) / l;
  return m + log(l);
}
// [/anchor: safe]

// [anchor: online]
// Two passes. The sum is relative to the maximum so far, and is corrected when the maximum grows.
template <class Real>
Real online_softmax(std::span<const Real> x, std::span<Real> a) {
  using std::log;
  Real m = -kInfinity<Real>, l = 0;
  for (size_t j = 0; j < x.size(); ++j) {
    const Real m_before = m;
    m = std::max(m, x[j]);
    l = l * exp_minus(m_before, m) + exp_minus(x[j], m);
  }
  for (size_t j = 0; j < x.size(); ++j) a[j] = exp_minus(x[j], m) / l;
  return m + log(l);
}
// [/anchor: online]

// o = a @ v
template <class Real>
void weighted_sum(std::span<const Real> a, fa::View<const Real> v, std::span<Real> o) {
  std::fill(o.begin(), o.end(), Real(0));
  for (int64_t j = 0; j < v.rows; ++j) {
    for (int64_t d = 0; d < v.cols; ++d) o[d] += a[j] * v(j, d);
  }
}

// The last three functions never store x or a, because score(j) computes x[j] from Q and K when it
// is needed. If a query sees no key (every score is −inf), they set o = 0 and return −inf.

// Attention in two passes over K. The second pass computes each score again instead of reading it.
template <class Real, class Score>
Real two_pass(Score score, fa::View<const Real> v, std::span<Real> o) {
  using std::log;
  Real m = -kInfinity<Real>, l = 0;
  for (int64_t j = 0; j < v.rows; ++j) {
    const Real x = score(j), m_before = m;
    m = std::max(m, x);
    l = l * exp_minus(m_before, m) + exp_minus(x, m);
  }
  std::fill(o.begin(), o.end(), Real(0));
  if (m == -kInfinity<Real>) return m;
  for (int64_t j = 0; j < v.rows; ++j) {
    const Real a = exp_minus(score(j), m) / l;
    for (int64_t d = 0; d < v.cols; ++d) o[d] += a * v(j, d);
  }
  return m + log(l);
}

// [anchor: one_pass_normalised]
// One pass. After every step, o is the normalized attention output for the keys so far.
template <class Real, class Score>
Real one_pass_normalised(Score score, fa::View<const Real> v, std::span<Real> o) {
  using std::log;
  Real m = -kInfinity<Real>, l = 0;
  std::fill(o.begin(), o.end(), Real(0));
  for (int64_t j = 0; j < v.rows; ++j) {
    const Real x = score(j), m_before = m, l_before = l;
    if (x == -kInfinity<Real>) continue;  // masked key, so nothing changes
    m = std::max(m, x);
    const Real rescale = exp_minus(m_before, m), p = exp_minus(x, m);
    l = rescale * l_before + p;
    const Real keep = rescale * l_before / l, add = p / l;
    for (int64_t d = 0; d < v.cols; ++d) o[d] = keep * o[d] + add * v(j, d);
  }
  return m + log(l);
}
// [/anchor: one_pass_normalised]

// [anchor: one_pass]
// One pass with an unnormalized o, which is divided by l once, after the last key.
template <class Real, class Score>
Real one_pass(Score score, fa::View<const Real> v, std::span<Real> o) {
  using std::log;
  Real m = -kInfinity<Real>, l = 0;
  std::fill(o.begin(), o.end(), Real(0));
  for (int64_t j = 0; j < v.rows; ++j) {
    const Real x = score(j), m_before = m;
    m = std::max(m, x);
    const Real rescale = exp_minus(m_before, m), p = exp_minus(x, m);
    l = rescale * l + p;
    for (int64_t d = 0; d < v.cols; ++d) o[d] = rescale * o[d] + p * v(j, d);
  }
  if (m == -kInfinity<Real>) return m;
  for (Real& value : o) value = value / l;
  return m + log(l);
}
// [/anchor: one_pass]

}  // namespace ch02
