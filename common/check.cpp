#include "common/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/parallel.hpp"
#include "common/reference.hpp"
#include "common/tensor_core.hpp"
#include "common/text.hpp"

namespace fa {
namespace {

// Returns the rows to check, ascending, which are all, or as many as the budget allows.
std::vector<int64_t> rows_to_check(const Problem& problem, uint64_t seed) {
  const Shape& shape = problem.shape;
  const double cost = 8.0 * static_cast<double>(shape.kv) * static_cast<double>(shape.dim);
  const int64_t affordable = std::max<int64_t>(64, static_cast<int64_t>(kSampleBudget / cost));
  return spread_sample(shape.rows(), affordable, seed);
}

std::string index_text(int64_t flat, const Shape& shape, bool is_lse) {
  std::string text;
  if (!is_lse) {
    text = ", " + std::to_string(flat % shape.dim);
    flat /= shape.dim;
  }
  const int64_t query = flat % shape.q, batch_head = flat / shape.q;
  return "[" + std::to_string(batch_head / shape.heads) + ", " +
         std::to_string(batch_head % shape.heads) + ", " + std::to_string(query) + text + "]";
}

std::string describe(const Comparison& result, const Shape& shape, const char* name, bool is_lse) {
  if (!result.same_shape) return std::string(name) + " has the wrong shape";
  if (result.mismatches == 0) return "";
  return text(
      "%s%s: expected %.9g, got %.9g\n"
      "%lld of %lld checked elements are wrong, %lld of them not finite",
      name, index_text(result.first_bad, shape, is_lse).c_str(), result.expected,
      unsigned_nan(result.got), static_cast<long long>(result.mismatches),
      static_cast<long long>(result.elements), static_cast<long long>(result.nonfinite));
}

// Returns the first wrong element of O, or else of LSE, as tensor, index, expected, got; or null.
nlohmann::json first_bad(const CheckResult& check, const Shape& shape) {
  const bool in_o = check.o.first_bad >= 0;
  const Comparison& wrong = in_o ? check.o : check.lse;
  if (wrong.first_bad < 0) return nullptr;
  const int64_t row = in_o ? wrong.first_bad / shape.dim : wrong.first_bad;
  std::vector<int64_t> index = {row / shape.q / shape.heads, row / shape.q % shape.heads,
                                row % shape.q};
  if (in_o) index.push_back(wrong.first_bad % shape.dim);
  return {{"tensor", in_o ? "O" : "LSE"},
          {"index", index},
          {"expected", json_number(wrong.expected)},
          {"got", json_number(wrong.got)}};
}

}  // namespace

double largest(std::span<const float> values) {
  float result = 0;
  for (const float value : values) result = std::max(result, std::abs(value));
  return result;
}

std::vector<int64_t> spread_sample(int64_t total, int64_t count, uint64_t seed) {
  count = std::min(total, count);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) {
    // One from each of `count` equal pieces. Its place in the piece depends on the seed and the
    // piece.
    const int64_t begin = static_cast<int64_t>(static_cast<double>(total) * i / count);
    const int64_t end = static_cast<int64_t>(static_cast<double>(total) * (i + 1) / count);
    const uint64_t spread = (seed + static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u >> 33;
    int64_t number = begin + static_cast<int64_t>(spread % std::max<int64_t>(1, end - begin));
    if (i == 0 && count > 1) number = 0;
    if (i + 1 == count && count > 1) number = total - 1;
    chosen.push_back(number);
  }
  return chosen;
}

namespace {

// Returns how much a score, and m in its reference, may lose in the tensor core's sums of 8-bit
// products.
double tensor_core_error(const Problem& problem) {
  if (problem.e4m3_weight == 0) return 0;
  const double terms = static_cast<double>(problem.shape.dim) * 33 / 32;
  return 2 * terms * std::exp2(-kSumRule<e4m3>.fraction_bits) * std::abs(problem.scale) *
             largest(problem.q) * largest(problem.k) +
         0x1p-20;
}

}  // namespace

Comparison compare(View<const float> got, View<const double> expected, double bound) {
  Comparison result;
  result.bound = bound;
  if (got.rows != expected.rows || got.cols != expected.cols) {
    result.same_shape = false;
    return result;
  }
  result.elements = got.rows * got.cols;
  double squared_error = 0, squared_norm = 0;
  for (int64_t i = 0; i < result.elements; ++i) {
    const double want = expected.data[i], have = got.data[i];
    const bool equal = std::isinf(want) && want == have;  // −inf − (−inf) is NaN
    const double error = equal ? 0 : std::abs(have - want);
    result.max_abs_error = max_keeping_nan(error, result.max_abs_error);
    squared_error += error * error;
    squared_norm += std::isinf(want) ? 0 : want * want;
    if (std::isnan(have) ? !std::isnan(want) : std::isinf(have) && std::isfinite(want)) {
      ++result.nonfinite;
    }
    if (!(error <= bound)) {
      if (result.mismatches++ == 0) {
        result.first_bad = i;
        result.expected = want;
        result.got = have;
      }
    }
  }
  result.rms_error = std::sqrt(squared_error / static_cast<double>(result.elements));
  result.relative_error = squared_error == 0 ? 0 : std::sqrt(squared_error / squared_norm);
  return result;
}

CheckResult check_output(const Problem& problem, std::span<const float> o,
                         std::span<const float> lse, uint64_t seed) {
  const Shape& shape = problem.shape;
  CheckResult result;
  result.rows = shape.rows();
  if (static_cast<int64_t>(o.size()) != shape.q_elements() ||
      (!lse.empty() && static_cast<int64_t>(lse.size()) != shape.rows())) {
    result.o.same_shape = false;
    return result;
  }
  const std::vector<int64_t> rows = rows_to_check(problem, seed);
  const int64_t count = static_cast<int64_t>(rows.size());
  result.rows_checked = count;

  std::vector<double> expected(count * shape.dim), expected_lse(count);
  std::vector<float> got(count * shape.dim), got_lse(count);
  std::vector<double> plain_error(count), plain_squared(count), plain_lse_error(count);
  std::vector<double> score(count), sum_rounding(count);
  parallel_for(count, 0, [&](int64_t i, int) {
    const int64_t batch_head = rows[i] / shape.q, query = rows[i] % shape.q;
    const std::span want(expected.data() + i * shape.dim, shape.dim);
    const RowFacts facts = reference_row(problem, batch_head, query, want);
    std::vector<float> plain(shape.dim);
    const RowFacts plain_facts = plain_row(problem, batch_head, query, plain);
    std::vector<double> errors(shape.dim);
    const auto note = [&] {
      for (int64_t d = 0; d < shape.dim; ++d)
        errors[d] = max_keeping_nan(std::abs(plain[d] - want[d]), errors[d]);
    };
    note();
    for (int quarter = -4; quarter < 4 && problem.e4m3_weight > 0; ++quarter) {
      plain_row(problem, batch_head, query, plain, std::exp2(static_cast<float>(quarter) / 4));
      note();
    }
    for (const double error : errors) {
      plain_error[i] = max_keeping_nan(error, plain_error[i]);
      plain_squared[i] += error * error;
    }
    expected_lse[i] = facts.lse;
    plain_lse_error[i] = std::isinf(facts.lse) ? 0 : std::abs(plain_facts.lse - facts.lse);
    score[i] = facts.largest_score;
    sum_rounding[i] = facts.sum_rounding;
    std::copy_n(o.data() + rows[i] * shape.dim, shape.dim, got.data() + i * shape.dim);
    if (!lse.empty()) got_lse[i] = lse[rows[i]];
  });

  double largest_o = 0, largest_score = 0, largest_lse = 0, lse_error = 0, plain_norm = 0;
  double largest_sum_rounding = 0, squares = 0;
  int64_t seeing = 0;  // rows with a visible key
  for (const double value : expected) {
    largest_o = std::max(largest_o, std::abs(value));
    squares += value * value;
  }
  for (int64_t i = 0; i < count; ++i) {
    seeing += std::isfinite(expected_lse[i]);
    largest_score = std::max(largest_score, score[i]);
    largest_sum_rounding = max_keeping_nan(sum_rounding[i], largest_sum_rounding);
    if (std::isfinite(expected_lse[i])) {
      largest_lse = std::max(largest_lse, std::abs(expected_lse[i]));
    }
    // Plain attention itself can overflow in fp16, but that does not excuse a kernel.
    if (std::isfinite(plain_error[i])) {
      result.plain_error = max_keeping_nan(plain_error[i], result.plain_error);
      plain_norm += plain_squared[i];
    }
    if (std::isfinite(plain_lse_error[i])) {
      lse_error = max_keeping_nan(plain_lse_error[i], lse_error);
    }
  }
  result.rms_expected =
      std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, seeing) * shape.dim));
  const double roundings = std::max(2.0, static_cast<double>(shape.dim) / 64);  // per score
  const double score_error = roundings * largest_score * 0x1p-24;
  const double sum_error = 2 * std::sqrt(static_cast<double>(shape.kv)) * 0x1p-24;
  const double one_ulp = unit_in_last_place(problem.dtype, largest_o);
  const double fp32_error = score_error * largest(problem.v) + sum_error * largest_o;
  const double times = problem.e4m3_weight > 0 ? 1.25 : 2;  // times the worst of eight variants, or
                                                            // the only one
  const double bound = times * result.plain_error + one_ulp + fp32_error;
  const double row_lean =
      unit_in_last_place(problem.dtype, 1.0) / 2 * std::sqrt(squares / static_cast<double>(count));
  result.rms_bound = (times * std::sqrt(plain_norm) + one_ulp + row_lean) /
                         std::sqrt(static_cast<double>(count * shape.dim)) +
                     fp32_error;
  result.o = compare({got.data(), count, shape.dim}, {expected.data(), count, shape.dim}, bound);
  if (!lse.empty()) {
    const double lse_bound = 2 * (lse_error + largest_sum_rounding) + score_error + sum_error +
                             tensor_core_error(problem) +
                             4 * unit_in_last_place(Dtype::f32, largest_lse);
    result.lse = compare({got_lse.data(), count, 1}, {expected_lse.data(), count, 1}, lse_bound);
    if (result.lse.first_bad >= 0) result.lse.first_bad = rows[result.lse.first_bad];
  }
  if (result.o.first_bad >= 0) {
    const int64_t row = result.o.first_bad / shape.dim, d = result.o.first_bad % shape.dim;
    result.o.first_bad = rows[row] * shape.dim + d;
  }

  // The rows that were not sampled must at least be written and finite.
  if (count < result.rows) {
    std::vector<bool> sampled(result.rows);
    for (const int64_t row : rows) sampled[row] = true;
    for (int64_t i = 0; i < shape.q_elements(); ++i) {
      if (std::isfinite(o[i]) || sampled[i / shape.dim]) continue;
      if (result.o.mismatches++ == 0) {
        std::vector<double> want(shape.dim);
        const int64_t row = i / shape.dim;
        reference_row(problem, row / shape.q, row % shape.q, want);
        result.o.first_bad = i;
        result.o.expected = want[i % shape.dim];
        result.o.got = o[i];
      }
      ++result.o.nonfinite;
      result.o.max_abs_error = result.o.relative_error = std::numeric_limits<double>::quiet_NaN();
    }
  }
  const double width = problem.e4m3_weight > 0 ? result.rms_bound : bound;
  const double smallest = unit_in_last_place(problem.dtype, 0);
  result.inconclusive =
      result.agrees() && bound > smallest && !(width <= kWidestBound * result.rms_expected);
  if (result.inconclusive) {
    result.cause = one_ulp <= smallest ? std::string("O is below ") + name(problem.dtype) +
                                             "'s normal numbers; with larger values of V it would"
                   : score_error * largest(problem.v) >= width / 2
                       ? "with smaller scores (--input-scale, --scale) it would"
                       : "rounding moves O by as much, as the terms of its sum nearly cancel";
  }
  // Weights may be as large as 2^8 before they are divided by their sum.
  const double safe = std::numeric_limits<float>::max() / (256.0 * static_cast<double>(shape.kv));
  double largest_mean = 0;
  for (const double mean : problem.v_mean)
    largest_mean = max_keeping_nan(std::abs(mean), largest_mean);
  const double largest_v = largest(problem.v) + largest_mean;
  if (result.o.nonfinite > 0 && !(largest_v <= safe)) {
    result.cause = text(
        "V of up to %.2g: its sum over %lld keys, before the division, can pass 3.4e38, "
        "the largest fp32 number;\nwith V up to %.1e it cannot",
        largest_v, static_cast<long long>(shape.kv), safe);
  }
  if (!result.agrees() && result.o.nonfinite == 0 && one_ulp <= smallest) {
    result.cause =
        std::string("O is below ") + name(problem.dtype) +
        "'s normal numbers, where weights times V can round to 0;\nwith larger values of "
        "V it would not";
  }
  return result;
}

std::string describe(const CheckResult& result, const Shape& shape) {
  std::string lines =
      text("%s: max error %.1e, bound %.1e, %lld of %lld rows",
           result.passed()       ? "passed"
           : result.inconclusive ? "INCONCLUSIVE"
                                 : "FAILED",
           unsigned_nan(result.o.max_abs_error), result.o.bound,
           static_cast<long long>(result.rows_checked), static_cast<long long>(result.rows));
  if (result.inconclusive) {
    lines += text(
                 "\nno element is out of bounds, but the bound is more than a quarter of O's rms, "
                 "%.1e:\nit proves nothing; ",
                 result.rms_expected) +
             result.cause;
  }
  if (result.o.passed() && !(result.o.rms_error <= result.rms_bound)) {
    lines += text("\nno element is far off, but all lean the same way: rms error %.1e, bound %.1e",
                  result.o.rms_error, result.rms_bound);
  }
  for (const std::string& line :
       {describe(result.o, shape, "O", false), describe(result.lse, shape, "LSE", true)}) {
    if (!line.empty()) lines += "\n" + line;
  }
  if (!result.inconclusive && !result.cause.empty()) lines += "\n" + result.cause;
  return lines;
}

double forward_flops(const Problem& problem) {
  const Shape& shape = problem.shape;
  if (problem.window_left < 0 && problem.window_right < 0 && problem.q_starts.empty() &&
      problem.lengths.empty()) {
    return shape.flops() * (problem.causal ? 0.5 : 1.0);
  }
  double scores = 0;
  for (int64_t batch = 0; batch < shape.batch; ++batch)
    for (int64_t query = 0; query < shape.q; ++query) {
      const Keys keys = problem.keys_of(batch, query);
      scores += static_cast<double>(std::max<int64_t>(0, keys.end - keys.begin));
    }
  return 4.0 * shape.heads * shape.dim * scores;
}

Verdict check_forward(const Problem& problem, std::span<const float> o, std::span<const float> lse,
                      uint64_t seed) {
  const CheckResult check = check_output(problem, o, lse, seed);
  return {check.passed(), describe(check, problem.shape),
          shared_json({{"passed", check.passed()},
                       {"inconclusive", check.inconclusive},
                       {"max_abs_error", json_number(check.o.max_abs_error)},
                       {"relative_error", json_number(check.o.relative_error)},
                       {"nonfinite", check.o.nonfinite + check.lse.nonfinite},
                       {"mismatches", check.o.mismatches + check.lse.mismatches},
                       {"bound", json_number(check.o.bound)},
                       {"rms_error", json_number(check.o.rms_error)},
                       {"rms_bound", json_number(check.rms_bound)},
                       {"rows", check.rows},
                       {"rows_checked", check.rows_checked},
                       {"elements", check.o.elements + check.lse.elements},
                       {"first_bad", first_bad(check, problem.shape)}})};
}

}  // namespace fa
