#include "verify.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "common/check.hpp"
#include "common/error.hpp"

namespace ch01 {
namespace {

constexpr double kEpsilon = FLT_EPSILON;  // 2⁻²³, twice the rounding error of one operation
constexpr double kTiny = FLT_MIN;         // below it fp32 numbers are subnormal and lose digits
constexpr double kExponentRange = 110;    // e^-110 is 0 in fp32

// Per output cell, the value and the largest error that fp32 rounding can cause in a correct
// program.
struct Expected {
  const Array* output;
  std::vector<double> values, bounds;
  void push(double value, double bound) {
    values.push_back(value);
    bounds.push_back(bound);
  }
};

// Returns the named array with `rank` subscripts. `form` is the expected form, for the error
// message.
const Array& need(const Program& program, const char* name, bool is_input, std::size_t rank,
                  const char* form) {
  const Array* array = program.find(name);
  if (!array || array->is_input != is_input || array->shape.size() != rank) {
    throw fa::InputError(program.name + ": .check " + check_name(program.check) + " needs " + form);
  }
  return *array;
}

void need_same(const Program& program, bool same, const char* form) {
  if (!same) {
    throw fa::InputError(program.name + ": the lengths do not fit together: .check " +
                         check_name(program.check) + " needs " + form);
  }
}

Expected matmul(const Program& program) {
  const char* form = ".input a[n][m], .input b[m][p] and .output c[n][p]";
  const Array& a = need(program, "a", true, 2, form);
  const Array& b = need(program, "b", true, 2, form);
  const Array& c = need(program, "c", false, 2, form);
  const int n = a.shape[0], m = a.shape[1], p = b.shape[1];
  need_same(program, b.shape[0] == m && c.shape[0] == n && c.shape[1] == p, form);
  Expected expected{&c, {}, {}};
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < p; ++j) {
      double sum = 0, absolute = 0;
      for (int k = 0; k < m; ++k) {
        const double term = double{a.values[i * m + k]} * b.values[k * p + j];
        sum += term;
        absolute += std::abs(term);
      }
      expected.push(sum, (m + 1) * kEpsilon * absolute + kTiny);
    }
  }
  return expected;
}

// The softmax weights of the scores, and the relative error that fp32 rounding can cause in them.
// Rounding a score difference of r to fp32 changes e^r by a relative error of about r·2⁻²⁴, and
// each of the n terms adds a rounding error.
struct Weights {
  std::vector<double> values;
  double relative;
};
Weights softmax_weights(const std::vector<double>& scores) {
  const auto [least, most] = std::minmax_element(scores.begin(), scores.end());
  Weights weights;
  double sum = 0;
  for (const double score : scores) sum += weights.values.emplace_back(std::exp(score - *most));
  for (double& weight : weights.values) weight /= sum;
  const double range = std::min(*most - *least, kExponentRange);
  weights.relative = 2 * kEpsilon * (static_cast<double>(scores.size()) + range + 4);
  return weights;
}

Expected softmax(const Program& program) {
  const char* form = ".input x[n] and .output out[n]";
  const Array& x = need(program, "x", true, 1, form);
  const Array& out = need(program, "out", false, 1, form);
  need_same(program, out.shape == x.shape, form);
  const Weights p = softmax_weights({x.values.begin(), x.values.end()});
  Expected expected{&out, {}, {}};
  for (const double value : p.values) expected.push(value, p.relative * value + kTiny);
  return expected;
}

Expected attention(const Program& program) {
  const char* form = ".input q[d], .input k[n][d], .input v[n][d] and .output o[d]";
  const Array& q = need(program, "q", true, 1, form);
  const Array& k = need(program, "k", true, 2, form);
  const Array& v = need(program, "v", true, 2, form);
  const Array& o = need(program, "o", false, 1, form);
  const int n = k.shape[0], d = k.shape[1];
  need_same(program, v.shape == k.shape && q.shape[0] == d && o.shape[0] == d, form);
  std::vector<double> scores;
  double score_error = 0;  // largest rounding error of a score, a sum of d products
  for (int j = 0; j < n; ++j) {
    double score = 0, absolute = 0;
    for (int t = 0; t < d; ++t) {
      const double term = double{q.values[t]} * k.values[j * d + t];
      score += term;
      absolute += std::abs(term);
    }
    scores.push_back(score);
    score_error = fa::max_keeping_nan(d * kEpsilon * absolute, score_error);
  }
  const Weights p = softmax_weights(scores);
  const double relative = p.relative + 2 * std::min(score_error, 0.5);
  Expected expected{&o, {}, {}};
  for (int t = 0; t < d; ++t) {
    double sum = 0, absolute = 0;
    for (int j = 0; j < n; ++j) {
      const double term = p.values[j] * v.values[j * d + t];
      sum += term;
      absolute += std::abs(term);
    }
    expected.push(sum, relative * absolute + kTiny);
  }
  return expected;
}

Expected ratio(const Program& program) {
  const char* form = ".input x[2] and .output out[1]";
  const Array& x = need(program, "x", true, 1, form);
  const Array& out = need(program, "out", false, 1, form);
  need_same(program, x.size() == 2 && out.size() == 1, form);
  const double difference = double{x.values[0]} - x.values[1];
  const double value = std::exp(difference);
  const double range = std::min(std::abs(difference), kExponentRange);
  return {&out, {value}, {kEpsilon * (range + 4) * value + kTiny}};
}

Expected sum(const Program& program) {
  const char* form = ".input x[n] and .output out[1]";
  const Array& x = need(program, "x", true, 1, form);
  const Array& out = need(program, "out", false, 1, form);
  need_same(program, out.size() == 1, form);
  double value = 0, absolute = 0;
  for (const float number : x.values) {
    value += number;
    absolute += std::abs(number);
  }
  // The bound does not grow with n, so that compensated summation passes and a plain loop does not.
  return {&out, {value}, {kEpsilon * absolute + kTiny}};
}

Expected variance(const Program& program) {
  const char* form = ".input x[n], n at least 2, and .output out[1]";
  const Array& x = need(program, "x", true, 1, form);
  const Array& out = need(program, "out", false, 1, form);
  need_same(program, x.size() >= 2 && out.size() == 1, form);
  const double n = x.size();
  double mean = 0, squares = 0;
  for (const float number : x.values) mean += number / n;
  for (const float number : x.values) squares += (number - mean) * (number - mean);
  const double value = squares / (n - 1);
  // The rounding error of the fp32 mean matters where the mean is much larger than the differences.
  const double rounding = 2 * kEpsilon * n;
  const double mean_error = rounding * std::abs(mean);
  return {&out,
          {value},
          {rounding * value + mean_error * std::sqrt(value) + mean_error * mean_error + kTiny}};
}

Expected direct(const Program& program) {
  switch (program.check) {
    case Check::kMatmul:
      return matmul(program);
    case Check::kSoftmax:
      return softmax(program);
    case Check::kAttention:
      return attention(program);
    case Check::kRatio:
      return ratio(program);
    case Check::kSum:
      return sum(program);
    case Check::kVariance:
      return variance(program);
  }
  return {};
}

}  // namespace

Verdict verify(const Program& program, const Run& run) {
  const Expected expected = direct(program);
  const int array = static_cast<int>(expected.output - program.arrays.data());
  Verdict verdict;
  for (int i = 0; i < expected.output->size(); ++i) {
    if (program.check_cell >= 0 && i != program.check_cell) continue;
    const double got = run.memory[array][i], want = expected.values[i];
    const double error = std::abs(got - want);
    ++verdict.compared;
    verdict.nonfinite += !std::isfinite(got);
    // [anchor: nan_proof]
    const bool agrees = error <= expected.bounds[i];  // false for a NaN
    if (!agrees) ++verdict.mismatches;
    // [/anchor: nan_proof]
    if (!std::isnan(verdict.max_abs_error) && !(error <= verdict.max_abs_error)) {
      verdict.max_abs_error = error;
    }
    if (!agrees && verdict.first_bad.empty()) {
      verdict.first_bad = cell_text(program, {array, i}) + " is " + number_text(got) +
                          ", expected " + number_text(want);
    }
  }
  if (program.promised_cycles >= 0 && program.promised_cycles != run.cost.cycles) {
    verdict.broken_promise = "the file promises " + std::to_string(program.promised_cycles) +
                             " cycles, the run took " + std::to_string(run.cost.cycles);
  }
  return verdict;
}

}  // namespace ch01
