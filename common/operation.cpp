#include "common/operation.hpp"

#include "common/check.hpp"
#include "common/features.hpp"
#include "common/json_report.hpp"

namespace fa {
namespace {

// The first element of O, or else of LSE, that is wrong: tensor, index, expected, got; or null.
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

Verdict check_forward(const Problem& problem, std::span<const std::vector<float>> outputs,
                      uint64_t seed) {
  const CheckResult check = check_output(problem, outputs[0], outputs[1], seed);
  return {check.passed(),
          describe(check, problem.shape),
          {{"passed", check.passed()},
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
           {"first_bad", first_bad(check, problem.shape)}}};
}

}  // namespace

std::vector<int64_t> like_q(const Shape& s) { return {s.batch, s.heads, s.q, s.dim}; }
std::vector<int64_t> like_k(const Shape& s) { return {s.batch, s.heads, s.kv, s.dim}; }
std::vector<int64_t> rows_of_q(const Shape& s) { return {s.batch, s.heads, s.q}; }

const Operation& forward_operation() {
  static const Operation forward{
      .inputs = {},
      .outputs = {{"O", "--out", "write O to this .npy file (float32)", like_q},
                  {"LSE", "--lse", "write the log-sum-exp of each row to this .npy file (float32)",
                   rows_of_q, LSE}},
      .check = check_forward,
      // Two matrix products; a causal mask hides about half of them.
      .flops = [](const Problem& problem) {
        return problem.shape.flops() * (problem.causal ? 0.5 : 1.0);
      }};
  return forward;
}

}  // namespace fa
