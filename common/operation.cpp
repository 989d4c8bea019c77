#include "common/operation.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/check.hpp"
#include "common/features.hpp"
#include "common/json_report.hpp"

namespace fa {
namespace {

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

// Returns the operations of two matrix products for the scores that the mask leaves. By convention,
// a causal mask counts as half of all scores.
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

Verdict check_forward(const Problem& problem, std::span<const std::vector<float>> outputs,
                      uint64_t seed) {
  const CheckResult check = check_output(problem, outputs[0], outputs[1], seed);
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

}  // namespace

std::vector<int64_t> like_q(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, s.heads, s.q, s.dim};
}
std::vector<int64_t> like_k(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, problem.kv_heads(), s.kv, s.dim};
}
std::vector<int64_t> rows_of_q(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, s.heads, s.q};
}

const Operation& forward_operation() {
  static const Operation forward{
      .inputs = {},
      .outputs = {{"O", "--out", "write O to this .npy file (float32)", like_q},
                  {"LSE", "--lse", "write the log-sum-exp of each row to this .npy file (float32)",
                   rows_of_q, LSE}},
      .check = check_forward,
      .flops = forward_flops};
  return forward;
}

}  // namespace fa
