#include "common/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace fa {
namespace {

// Σ a[i]·b[i] in Real, in eight interleaved partial sums (compilers may not reorder one long sum).
template <class Real>
Real dot(const float* a, const float* b, int64_t count) {
  Real sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += Real(a[i + lane]) * Real(b[i + lane]);
  }
  for (; i < count; ++i) sums[0] += Real(a[i]) * Real(b[i]);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// Round is applied to P and O.
template <class Real, class Round>
RowFacts attention_row(const Problem& problem, int64_t batch_head, int64_t query, std::span<Real> o,
                       Round round) {
  const Shape& shape = problem.shape;
  const float* const q_row = problem.q.data() + (batch_head * shape.q + query) * shape.dim;
  const int64_t kv_head = batch_head / problem.group, of_q = batch_head % shape.heads;
  const View<const float> K = head(problem.k.data(), kv_head, shape.kv, shape.dim);
  const View<const float> V = head(problem.v.data(), kv_head, shape.kv, shape.dim);
  const Keys keys = problem.keys_of(query);
  const int64_t visible = std::max<int64_t>(0, keys.end - keys.begin);
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

  thread_local std::vector<Real> s;
  s.resize(visible);
  RowFacts facts{-kInfinity};
  Real m = -kInfinity;
  for (int64_t j = 0; j < visible; ++j) {
    const int64_t key = keys.begin + j;
    s[j] = Real(problem.scale) * dot<Real>(q_row, K.row(key), shape.dim);
    if (problem.softcap > 0) {
      s[j] = Real(problem.softcap) * std::tanh(s[j] / Real(problem.softcap));
    }
    if (problem.alibi) {
      s[j] -= Real(alibi_slope(of_q, shape.heads)) * Real(std::abs(key - keys.diagonal));
    }
    if (problem.modify_score) s[j] = Real(problem.modify_score(s[j], of_q, query, key));
    if (s[j] == -kInfinity) continue;  // hidden: no score
    m = std::max(m, s[j]);
    facts.largest_score = std::max(facts.largest_score, std::abs(double(s[j])));
  }
  std::fill(o.begin(), o.end(), Real(0));
  if (m == -kInfinity) return facts;

  Real l = 0;
  double change = 0, squares = 0;
  for (int64_t j = 0; j < visible; ++j) {
    s[j] = std::exp(s[j] - m);
    l += s[j];
    const double p = s[j], rounded = round_to(problem.dtype, static_cast<float>(p));
    change += rounded - p;
    if (rounded != p) squares += p * p;
  }
  const double half_ulp = unit_in_last_place(problem.dtype, 1.0) / 2;
  facts.sum_rounding = (std::abs(change) + half_ulp * std::sqrt(squares)) / double(l);
  for (int64_t j = 0; j < visible; ++j) {
    const Real p = round(s[j] / l);
    const float* const v_row = V.row(keys.begin + j);
    for (int64_t d = 0; d < shape.dim; ++d) o[d] += p * Real(v_row[d]);
  }
  for (Real& value : o) value = round(value);
  facts.lse = double(m) + std::log(double(l));
  return facts;
}

}  // namespace

RowFacts reference_row(const Problem& problem, int64_t batch_head, int64_t query,
                       std::span<double> o) {
  return attention_row<double>(problem, batch_head, query, o, [](double x) { return x; });
}

RowFacts plain_row(const Problem& problem, int64_t batch_head, int64_t query, std::span<float> o) {
  return attention_row<float>(problem, batch_head, query, o,
                              [&](float x) { return round_to(problem.dtype, x); });
}

}  // namespace fa
