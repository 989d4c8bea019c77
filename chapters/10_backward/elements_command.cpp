// The subcommand elements compares each element of dQ, dK and dV with float64, intact or with a
// break. Errors are divided by the root mean square of their tensor, because some elements are 0 or
// nearly 0.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "common/backward.hpp"
#include "common/breaks.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "common/text.hpp"
#include "cpu_backward.hpp"
#include "cpu_broken.hpp"

namespace fa::ch10 {
namespace {

struct Gradients {
  std::vector<double> dQ, dK, dV;
};

// Computes the gradients in float64, from inputs rounded to the problem's type.
Gradients exact(const Problem& problem) {
  const auto widen = [](const std::vector<float>& from) {
    return std::vector<double>(from.begin(), from.end());
  };
  const std::vector<double> Q = widen(problem.q), K = widen(problem.k), V = widen(problem.v),
                            dO = widen(problem.d_o);
  std::vector<double> O(Q.size()), LSE(problem.shape.rows()), D(problem.shape.rows());
  Gradients result{std::vector<double>(Q.size()), std::vector<double>(K.size()),
                   std::vector<double>(V.size())};
  differentiate(
      Tensors<double>{problem.shape, problem.group, static_cast<double>(problem.scale),
                      problem.causal, Q.data(), K.data(), V.data(), dO.data(), O.data(), LSE.data(),
                      D.data(), result.dQ.data(), result.dK.data(), result.dV.data()},
      Options{});
  return result;
}

// Returns |got - exact| / rms(exact) of each element. Values that are not finite stay so.
std::vector<double> errors(const std::vector<float>& got, const std::vector<double>& exact) {
  double squares = 0;
  for (const double x : exact) squares += x * x;
  const double rms = std::sqrt(squares / static_cast<double>(exact.size()));
  std::vector<double> result;
  for (size_t i = 0; i < got.size(); ++i) result.push_back(std::abs(got[i] - exact[i]) / rms);
  return result;
}

std::string summary(const char* name, const std::vector<double>& errors) {
  std::vector<double> finite;
  for (const double error : errors) {
    if (std::isfinite(error)) finite.push_back(error);
  }
  std::sort(finite.begin(), finite.end());
  const double none = std::nan("");
  return text("  %-4s %12.1e %12.1e %16zu of %zu\n", name,
              finite.empty() ? none : finite[finite.size() / 2],
              finite.empty() ? none : finite.back(), errors.size() - finite.size(), errors.size());
}

nlohmann::json as_rows(const std::vector<double>& errors, int64_t dim) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t i = 0; i < errors.size(); ++i) {
    if (i % dim == 0) rows.push_back(nlohmann::json::array());
    rows.back().push_back(json_number(errors[i]));
  }
  return rows;
}

}  // namespace

int elements_command(const CommandOptions& options) {
  const Dtype dtype = options.dtype == "f32" ? Dtype::f32 : Dtype::bf16;
  Problem problem =
      random_problem({1, 1, options.queries, options.keys, options.elements_dim}, dtype, 0);
  problem.causal = true;
  const std::vector<int64_t> shape = like_q(problem);
  problem.d_o = random_values(shape, dtype, 0, 0);
  Options chosen;
  chosen.tiling = {options.block, options.block};
  if (options.broken != "none") chosen.breaks = parse_breaks({options.broken}, CPU_BREAKS);
  validate(problem, chosen);
  std::vector<float> dQ(problem.q.size()), dK(problem.k.size()), dV(problem.v.size());
  differentiate(problem, chosen, dQ, dK, dV);
  const bool passed = check_gradients(problem, problem.d_o, dQ, dK, dV).passed();
  const Gradients right = exact(problem);
  const std::vector<double> of_dq = errors(dQ, right.dQ), of_dk = errors(dK, right.dK),
                            of_dv = errors(dV, right.dV);
  std::cout << text("%lld queries, %lld keys, causal, d = %lld, %s, tiles of %lld x %lld, %s.\n",
                    (long long)options.queries, (long long)options.keys,
                    (long long)options.elements_dim, options.dtype.c_str(),
                    (long long)options.block, (long long)options.block,
                    options.broken == "none" ? "intact" : options.broken.c_str())
            << "Error / root mean square of the tensor:\n"
            << text("  %-4s %12s %12s %20s\n", "", "median", "largest", "not finite")
            << summary("dQ", of_dq) << summary("dK", of_dk) << summary("dV", of_dv)
            << (passed ? "Within the bound.\n" : "NOT within the bound.\n");
  if (!options.json.empty()) {
    const int64_t dim = options.elements_dim;
    write_json(options.json, {{"queries", options.queries},
                              {"keys", options.keys},
                              {"dim", dim},
                              {"block", options.block},
                              {"dtype", options.dtype},
                              {"break", options.broken},
                              {"passed", passed},
                              {"errors",
                               {{"dQ", as_rows(of_dq, dim)},
                                {"dK", as_rows(of_dk, dim)},
                                {"dV", as_rows(of_dv, dim)}}}});
  }
  return passed ? kAgreed : kDisagreed;
}

}  // namespace fa::ch10
