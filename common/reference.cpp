#include "common/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/fp8.hpp"
#include "common/scores.hpp"

namespace fa {
namespace {

// round_weight is applied to P, whose largest value is 1, and round to O.
template <class Real, class RoundWeight, class Round>
RowFacts attention_row(const Problem& problem, int64_t batch_head, int64_t query, std::span<Real> o,
                       RoundWeight round_weight, Round round) {
  const Shape& shape = problem.shape;
  const View<const float> V =
      head(problem.v.data(), batch_head / problem.group, shape.kv, shape.dim);
  const QueryScores<Real> scores(problem, batch_head, query);
  const Keys& keys = scores.keys();
  const int64_t visible = std::max<int64_t>(0, keys.end - keys.begin);
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

  thread_local std::vector<Real> s;
  s.resize(visible);
  RowFacts facts{-kInfinity};
  const Real sink = static_cast<Real>(problem.sink_of(batch_head));
  Real m = sink;
  for (int64_t j = 0; j < visible; ++j) {
    s[j] = scores(keys.begin + j).value;
    if (s[j] == -kInfinity) continue;  // masked, so no score
    m = std::max(m, s[j]);
    facts.largest_score = std::max(facts.largest_score, std::abs(double(s[j])));
  }
  std::fill(o.begin(), o.end(), Real(0));
  if (m == -kInfinity) return facts;

  Real l = std::exp(sink - m);  // 0 without a sink
  if (l > 0) facts.largest_score = std::max(facts.largest_score, std::abs(double(sink)));
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
    const Real p = round_weight(s[j], l);
    const float* const v_row = V.row(keys.begin + j);
    for (int64_t d = 0; d < shape.dim; ++d) o[d] += p * Real(v_row[d]);
  }
  if (!problem.v_mean.empty()) {
    const int64_t first = batch_head / problem.group * shape.dim;
    for (int64_t d = 0; d < shape.dim; ++d) o[d] += Real(problem.v_mean[first + d]);
  }
  for (Real& value : o) value = round(value);
  facts.lse = double(m) + std::log(double(l));
  if (!problem.lse_offset.empty()) facts.lse += problem.lse_offset[batch_head * shape.q + query];
  return facts;
}

}  // namespace

RowFacts reference_row(const Problem& problem, int64_t batch_head, int64_t query,
                       std::span<double> o) {
  return attention_row<double>(
      problem, batch_head, query, o, [](double p, double l) { return p / l; },
      [](double x) { return x; });
}

RowFacts plain_row(const Problem& problem, int64_t batch_head, int64_t query, std::span<float> o,
                   float shift) {
  const auto round = [&](float x) { return round_to(problem.dtype, x); };
  const float largest = problem.e4m3_weight * shift;
  const auto round_weight = [&](float p, float l) {
    return largest > 0 ? to_float(to_e4m3(p * largest)) / (largest * l) : round(p / l);
  };
  return attention_row<float>(problem, batch_head, query, o, round_weight, round);
}

}  // namespace fa
