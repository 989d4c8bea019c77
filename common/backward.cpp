#include "common/backward.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "common/gradients.hpp"
#include "common/json_report.hpp"
#include "common/parallel.hpp"
#include "common/text.hpp"

namespace fa {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The checked heads of K and V, and the checked rows of each head.
struct Sample {
  std::vector<int64_t> kv_heads, queries, keys;
};

Sample sample(const Problem& problem, uint64_t seed, double budget) {
  const Shape& shape = problem.shape;
  const int64_t num_queries = problem.group * shape.q;
  const GradientCost cost = cost_of_gradients(problem);
  const auto share = [](double part, double whole, int64_t total) {
    const double count = static_cast<double>(total) * part / std::max(1.0, whole);
    return static_cast<int64_t>(std::clamp(count, 64.0, 1e15));
  };
  const int64_t heads =
      static_cast<int64_t>(std::clamp(budget / std::max(1.0, cost.all()), 1.0, 1e15));
  Sample chosen{spread_sample(shape.batch * problem.kv_heads(), heads, seed), {}, {}};
  const bool whole = cost.all() <= budget;
  const double left = (budget - cost.forward) / 2;
  chosen.queries = spread_sample(
      num_queries, whole ? num_queries : share(left, cost.queries, num_queries), seed);
  chosen.keys = spread_sample(shape.kv, whole ? shape.kv : share(left, cost.keys, shape.kv), seed);
  return chosen;
}

// The checked rows of one gradient.
struct Rows {
  std::vector<int64_t> numbers;  // in the whole tensor
  std::vector<double> expected;
  std::vector<float> plain;
  int64_t seen = 0;

  void add(int64_t first, std::span<const int64_t> rows, const std::vector<double>& exact,
           const std::vector<float>& yardstick, const std::vector<bool>& sees) {
    for (const int64_t row : rows) numbers.push_back(first + row);
    expected.insert(expected.end(), exact.begin(), exact.end());
    plain.insert(plain.end(), yardstick.begin(), yardstick.end());
    seen += std::count(sees.begin(), sees.end(), true);
  }
};

// The largest ‖·‖ of a row.
double largest_norm(std::span<const float> values, int64_t dim) {
  double result = 0;
  for (size_t i = 0; i < values.size(); i += dim) {
    double squares = 0;
    for (const float value : values.subspan(i, dim)) squares += double(value) * double(value);
    result = std::max(result, std::sqrt(squares));
  }
  return result;
}

// The part of a gradient's bound in addition to plain attention's error and the unit in the last
// place.
struct Terms {
  double cancelled;  // what fp32 leaves of dP − D
  double fp32;       // all else that fp32 does
  double lean;       // what rounding O does, as a ‖·‖
  double elements;   // the number of elements that it is spread over
};

GradientComparison compare_gradient(const Problem& problem, std::span<const float> got_whole,
                                    const Rows& rows, const Terms& terms) {
  const int64_t dim = problem.shape.dim, count = static_cast<int64_t>(rows.numbers.size());
  GradientComparison result;
  result.rows = static_cast<int64_t>(got_whole.size()) / dim;
  result.rows_checked = count;
  result.fp32_error = terms.cancelled + terms.fp32;
  std::vector<float> got;
  got.reserve(count * dim);
  for (const int64_t row : rows.numbers) {
    got.insert(got.end(), got_whole.begin() + row * dim, got_whole.begin() + (row + 1) * dim);
  }
  double largest_gradient = 0, squares = 0, plain_squares = 0;
  for (size_t i = 0; i < rows.expected.size(); ++i) {
    largest_gradient = std::max(largest_gradient, std::abs(rows.expected[i]));
    squares += rows.expected[i] * rows.expected[i];
    const double error = std::abs(rows.plain[i] - rows.expected[i]);
    if (!std::isfinite(error)) continue;  // plain attention overflows in fp16, which is no excuse
    result.plain_error = max_keeping_nan(error, result.plain_error);
    plain_squares += error * error;
  }
  const double elements = static_cast<double>(count * dim);
  const double one_ulp = unit_in_last_place(problem.dtype, largest_gradient);
  result.subnormal = one_ulp <= unit_in_last_place(problem.dtype, 0);
  const double bound = 2 * result.plain_error + one_ulp + result.fp32_error +
                       2 * terms.lean / std::sqrt(static_cast<double>(dim));
  result.rms_bound = (2 * std::sqrt(plain_squares) + one_ulp) / std::sqrt(elements) +
                     result.fp32_error + terms.lean / std::sqrt(terms.elements);
  result.rms_expected =
      std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, rows.seen) * dim));
  result.values = compare({got.data(), count, dim}, {rows.expected.data(), count, dim}, bound);
  Comparison& values = result.values;
  if (values.first_bad >= 0) {
    values.first_bad = rows.numbers[values.first_bad / dim] * dim + values.first_bad % dim;
  }

  // The rows that were not sampled must at least be written and finite.
  if (count < result.rows) {
    std::vector<bool> sampled(result.rows);
    for (const int64_t row : rows.numbers) sampled[row] = true;
    for (int64_t i = 0; i < static_cast<int64_t>(got_whole.size()); ++i) {
      if (std::isfinite(got_whole[i]) || sampled[i / dim]) continue;
      if (values.mismatches++ == 0) {
        values.first_bad = i;
        values.expected = kNaN;  // unknown, but a finite number
        values.got = got_whole[i];
      }
      ++values.nonfinite;
      values.max_abs_error = values.relative_error = kNaN;
    }
  }
  result.inconclusive = result.agrees() && result.rms_expected > terms.cancelled &&
                        !(result.rms_bound <= kWidestBound * result.rms_expected);
  return result;
}

struct NamedGradient {
  const char* name;
  const GradientComparison* comparison;
  std::vector<int64_t> shape;
};

std::array<NamedGradient, 3> named(const GradientCheck& check, const Problem& problem) {
  return {{{"dQ", &check.dq, like_q(problem)},
           {"dK", &check.dk, like_k(problem)},
           {"dV", &check.dv, like_k(problem)}}};
}

std::vector<int64_t> index_of(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
  return index;
}

std::string formatted(const char* format, double number) {
  return text(format, unsigned_nan(number));
}

std::string what_is_wrong(const NamedGradient& gradient) {
  const GradientComparison& comparison = *gradient.comparison;
  const Comparison& values = comparison.values;
  const std::string name = gradient.name;
  if (!values.same_shape) return "\n" + name + " or dO has the wrong shape";
  if (values.elements == 0) return "";  // not compared, as another's shape is wrong
  if (values.mismatches > 0) {
    std::string where;
    for (const int64_t i : index_of(values.first_bad, gradient.shape)) {
      where += (where.empty() ? "" : ", ") + std::to_string(i);
    }
    const std::string expected =
        std::isnan(values.expected) ? "a finite number" : formatted("%.9g", values.expected);
    return "\n" + name + "[" + where + "]: expected " + expected + ", got " +
           formatted("%.9g", values.got) + "\n" + std::to_string(values.mismatches) + " of " +
           std::to_string(values.elements) + " checked elements are wrong, " +
           std::to_string(values.nonfinite) + " of them not finite";
  }
  if (!comparison.agrees()) {
    return "\n" + name + ": no element is far off, but all lean the same way: rms error " +
           formatted("%.1e", values.rms_error) + ", bound " +
           formatted("%.1e", comparison.rms_bound);
  }
  if (comparison.inconclusive) {
    return "\n" + name + ": nothing is out of bounds, but the bound of the rms error, " +
           formatted("%.1e", comparison.rms_bound) + ", is more than a quarter of " + name +
           "'s rms, " + formatted("%.1e", comparison.rms_expected) + ":\nit proves nothing; with " +
           (comparison.subnormal ? "larger values of V and dO"
                                 : "smaller scores (--input-scale, --scale)") +
           " it would";
  }
  return "";
}

// 0 is exact, 1 is at the bound, and a wrong shape and NaN are above all.
double badness(const GradientComparison& comparison) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (!comparison.values.same_shape) return infinity;
  const double element = comparison.values.max_abs_error / comparison.values.bound;
  const double rms = comparison.values.rms_error / comparison.rms_bound;
  return std::isnan(element) || std::isnan(rms) ? infinity : std::max(element, rms);
}

nlohmann::json report(const NamedGradient& gradient) {
  const GradientComparison& comparison = *gradient.comparison;
  const Comparison& values = comparison.values;
  nlohmann::json first_bad = nullptr;
  if (values.first_bad >= 0) {
    first_bad = {{"tensor", gradient.name},
                 {"index", index_of(values.first_bad, gradient.shape)},
                 {"expected", json_number(values.expected)},
                 {"got", json_number(values.got)}};
  }
  return {{"passed", comparison.agrees() && !comparison.inconclusive},
          {"inconclusive", comparison.inconclusive},
          {"max_abs_error", json_number(values.max_abs_error)},
          {"relative_error", json_number(values.relative_error)},
          {"nonfinite", values.nonfinite},
          {"mismatches", values.mismatches},
          {"bound", json_number(values.bound)},
          {"rms_error", json_number(values.rms_error)},
          {"rms_bound", json_number(comparison.rms_bound)},
          {"rows", comparison.rows},
          {"rows_checked", comparison.rows_checked},
          {"elements", values.elements},
          {"first_bad", first_bad}};
}

}  // namespace

GradientCheck check_gradients(const Problem& problem, std::span<const float> d_o,
                              std::span<const float> d_q, std::span<const float> d_k,
                              std::span<const float> d_v, uint64_t seed, double budget) {
  const Shape& shape = problem.shape;
  GradientCheck result;
  const auto fits = [](std::span<const float> tensor, int64_t elements) {
    return static_cast<int64_t>(tensor.size()) == elements;
  };
  const bool any_dq = fits(d_o, shape.q_elements());  // without dO no gradient can be right
  result.dq.values.same_shape = any_dq && fits(d_q, shape.q_elements());
  result.dk.values.same_shape = any_dq && fits(d_k, problem.kv_elements());
  result.dv.values.same_shape = any_dq && fits(d_v, problem.kv_elements());
  for (const GradientComparison* gradient : {&result.dq, &result.dk, &result.dv}) {
    if (!gradient->values.same_shape) return result;
  }

  const Sample chosen = sample(problem, seed, budget);
  const int64_t heads = static_cast<int64_t>(chosen.kv_heads.size());
  std::vector<GradientRows<double>> exact(heads);
  std::vector<GradientRows<float>> plain(heads);
  parallel_for(heads, 0, [&](int64_t i, int) {
    exact[i] = reference_gradients(problem, d_o, chosen.kv_heads[i], chosen.queries, chosen.keys);
    plain[i] = plain_gradients(problem, d_o, chosen.kv_heads[i], chosen.queries, chosen.keys);
  });
  Rows dq, dk, dv;
  GradientFacts facts;
  for (int64_t i = 0; i < heads; ++i) {
    const int64_t first_query = chosen.kv_heads[i] * problem.group * shape.q;
    const int64_t first_key = chosen.kv_heads[i] * shape.kv;
    dq.add(first_query, chosen.queries, exact[i].dq, plain[i].dq, exact[i].query_sees);
    dk.add(first_key, chosen.keys, exact[i].dk, plain[i].dk, exact[i].key_is_seen);
    dv.add(first_key, chosen.keys, exact[i].dv, plain[i].dv, exact[i].key_is_seen);
    facts.include(exact[i].facts);
    exact[i] = {};
    plain[i] = {};
  }

  result.largest_score = facts.largest_score;
  const double scale = std::abs(problem.scale);
  const double root_q = std::sqrt(static_cast<double>(problem.group * shape.q));
  const double root_kv = std::sqrt(static_cast<double>(shape.kv));
  const double products =
      scale * largest_norm(problem.q, shape.dim) * largest_norm(problem.k, shape.dim);
  const double weight_error = products + 2 * facts.largest_score + facts.largest_lse + 2 * root_kv;
  const double over_keys = (weight_error + 2 * root_kv) * 0x1p-24;
  const double over_queries = (weight_error + 2 * root_q) * 0x1p-24;
  const double cancelled = 0x1p-20 * scale * facts.largest_dp;
  const double dq_elements = static_cast<double>(dq.expected.size());
  const double dk_elements = static_cast<double>(heads * shape.kv * shape.dim);
  result.dq = compare_gradient(problem, d_q, dq,
                               {.cancelled = cancelled * largest(problem.k),
                                .fp32 = over_keys * scale * facts.row_ds * largest(problem.k),
                                .lean = facts.dq.spread(),
                                .elements = dq_elements});
  result.dk = compare_gradient(problem, d_k, dk,
                               {.cancelled = cancelled * largest(problem.q) * root_q,
                                .fp32 = over_queries * scale * facts.column_ds * largest(problem.q),
                                .lean = facts.dk.spread(),
                                .elements = dk_elements});
  result.dv = compare_gradient(problem, d_v, dv,
                               {.cancelled = 0,
                                .fp32 = over_queries * facts.column_p * largest(d_o),
                                .lean = 0,
                                .elements = dk_elements});
  return result;
}

Comparison check_sink_gradients(const Problem& problem, std::span<const float> o,
                                std::span<const float> lse, std::span<const float> d_sinks) {
  const std::vector<SinkGradient> expected = sink_gradients(problem, o, lse);
  Comparison result;
  result.same_shape = d_sinks.size() == expected.size();
  result.mismatches = result.same_shape ? 0 : 1;
  if (!result.same_shape) return result;
  double largest_lse = 0;
  for (const float value : lse) {
    if (std::isfinite(value)) largest_lse = std::max(largest_lse, std::abs(double(value)));
  }
  const double part = 0x1p-18 + 0x1p-22 * largest_lse;
  result.elements = std::ssize(expected);
  for (size_t head = 0; head < expected.size(); ++head) {
    const double error = std::abs(d_sinks[head] - expected[head].value);
    result.max_abs_error = max_keeping_nan(error, result.max_abs_error);
    result.bound = std::max(result.bound, part * expected[head].terms);
    result.nonfinite += !std::isfinite(d_sinks[head]);
    if (error <= part * expected[head].terms) continue;  // false for NaN
    if (result.mismatches++ == 0) {
      result.first_bad = static_cast<int64_t>(head);
      result.expected = expected[head].value;
      result.got = d_sinks[head];
    }
  }
  return result;
}

std::string describe(const GradientCheck& check, const Problem& problem) {
  const std::string text = check.passed()         ? "passed: "
                           : check.inconclusive() ? "INCONCLUSIVE: "
                                                  : "FAILED: ";
  std::string errors, wrong;
  int64_t rows = 0, rows_checked = 0;
  for (const NamedGradient& gradient : named(check, problem)) {
    const Comparison& values = gradient.comparison->values;
    errors += "\n" + std::string(gradient.name) + " max error " +
              formatted("%.1e", values.max_abs_error) + ", bound " +
              formatted("%.1e", values.bound);
    wrong += what_is_wrong(gradient);
    rows += gradient.comparison->rows;
    rows_checked += gradient.comparison->rows_checked;
  }
  if (check.d_sinks.elements > 0) {
    errors += "\ndsinks max error " + formatted("%.1e", check.d_sinks.max_abs_error) + ", bound " +
              formatted("%.1e", check.d_sinks.bound);
  }
  if (check.d_sinks.mismatches > 0) {
    wrong += "\ndsinks[" + std::to_string(check.d_sinks.first_bad) + "]: expected " +
             formatted("%.9g", check.d_sinks.expected) + ", got " +
             formatted("%.9g", check.d_sinks.got);
  }
  // LSE's unit in the last place at 1e5 is 2^-7, which is about 1 % of a weight.
  if (!check.passed() && check.largest_score > 1e5) {
    wrong += "\nscores of up to " + formatted("%.1e", check.largest_score) +
             ": P = e^(score - LSE), and fp32 keeps too few digits of such an LSE;\nwith scores up "
             "to 1e5 a weight is off by 1 % at most";
  }
  return text + std::to_string(rows_checked) + " of " + std::to_string(rows) + " rows" + errors +
         wrong;
}

Verdict check_backward(const Tensors& tensors, uint64_t seed) {
  GradientCheck check =
      check_gradients(tensors, tensors.d_o, tensors.dq, tensors.dk, tensors.dv, seed);
  if (!tensors.sinks.empty()) {
    check.d_sinks = check_sink_gradients(tensors, tensors.o, tensors.lse, tensors.d_sinks);
  }
  const auto gradients = named(check, tensors);
  const NamedGradient& worst = *std::max_element(
      gradients.begin(), gradients.end(), [](const NamedGradient& a, const NamedGradient& b) {
        return badness(*a.comparison) < badness(*b.comparison);
      });
  nlohmann::json json = report(worst);
  json["passed"] = check.passed();
  json["inconclusive"] = check.inconclusive();
  for (const char* count : {"nonfinite", "mismatches", "rows", "rows_checked", "elements"}) {
    int64_t sum = 0;
    for (const NamedGradient& gradient : gradients) sum += report(gradient)[count].get<int64_t>();
    json[count] = sum;
  }
  for (const NamedGradient& gradient : gradients) json[gradient.name] = report(gradient);
  return {check.passed(), describe(check, tensors), shared_json(json)};
}

}  // namespace fa
