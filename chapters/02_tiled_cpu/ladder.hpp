#pragma once
// Six ways to softmax and attention for one query, each one idea away from the one before it.
// x[j] is the score of key j, v[j] its value row. Every function returns log Σ eˣ.
// Real is float or double, or Counted (counted.hpp), which counts the operations.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "common/tensor.hpp"
#include "state.hpp"

namespace ch02 {

// The first three make weights a = softmax(x), which may overwrite x; `weighted_sum` then makes
// o = a @ v. All of x and all of a have to be in memory for that.

// Two passes over x. e^x overflows fp32 beyond x = 88.7.
template <class Real>
Real native_softmax(std::span<const Real> x, std::span<Real> a) {
  using std::exp, std::log;
  Real l = 0;
  for (size_t j = 0; j < x.size(); ++j) l += exp(x[j]);
  for (size_t j = 0; j < x.size(); ++j) a[j] = exp(x[j]) / l;
  return log(l);
}

// [anchor: safe]
// Three passes: softmax does not change when every score moves by the same amount, so move the
// largest to 0.
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
// Two passes again: the sum is kept relative to the maximum so far, and corrected when that grows.
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

// The other three never store x or a: score(j) computes x[j] from Q and K when it is needed. A
// query that sees no key (every score −inf) gives o = 0 and −inf.

// Attention in two passes over K: the second computes each score again instead of reading it.
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
// One pass: o is the finished attention over the keys seen so far, at every step.
template <class Real, class Score>
Real one_pass_normalised(Score score, fa::View<const Real> v, std::span<Real> o) {
  using std::log;
  Real m = -kInfinity<Real>, l = 0;
  std::fill(o.begin(), o.end(), Real(0));
  for (int64_t j = 0; j < v.rows; ++j) {
    const Real x = score(j), m_before = m, l_before = l;
    if (x == -kInfinity<Real>) continue;  // hidden: nothing changes
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
// The same with o left unnormalised: l rides along and divides once, after the last key.
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
