// The subcommand overflow shows p, l and o with e^x and no maximum, in every type, for growing
// scores.

#include <cfloat>
#include <cmath>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "common/program.hpp"

namespace ch02 {
namespace {

using fa::Dtype;
using nlohmann::json;

// The type in which p = e^(x − m) is stored, and the type in which l and o are summed.
struct Types {
  const char* name;
  Dtype p, sums;
};
const Types kTypes[] = {{"p f32,  l and o f32", Dtype::f32, Dtype::f32},
                        {"p bf16, l and o f32", Dtype::bf16, Dtype::f32},
                        {"p f16,  l and o f32", Dtype::f16, Dtype::f32},
                        {"p f16,  l and o f16", Dtype::f16, Dtype::f16}};

double largest_finite(Dtype dtype) {
  if (dtype == Dtype::f16) return 65504;
  return dtype == Dtype::bf16 ? 0x1.fep127 : FLT_MAX;
}

// A query for which all keys have the same score. All keys also have the same value, so the correct
// output is that value.
struct Row {
  Types types;
  int64_t keys;
  float value;
};
struct State {
  float p, l = 0, o = 0, output = 0;
};

State attend(const Row& row, double score, double m) {
  State state{fa::round_to(row.types.p, static_cast<float>(std::exp(score - m)))};
  for (int64_t j = 0; j < row.keys; ++j) {
    state.l = fa::round_to(row.types.sums, state.l + state.p);
    state.o = fa::round_to(row.types.sums, state.o + state.p * row.value);
  }
  state.output = fa::round_to(row.types.p, state.o / state.l);
  return state;
}

// Returns the largest score for which `fine` is true if no maximum is subtracted.
double fine_up_to(const Row& row, const std::function<bool(const State&)>& fine) {
  double below = 0, above = 100;
  while (above - below > 1e-6) {
    const double middle = (below + above) / 2;
    (fine(attend(row, middle, 0)) ? below : above) = middle;
  }
  return below;
}

double right_up_to(const Row& row) {  // false for NaN
  return fine_up_to(row, [&](const State& state) { return state.output == row.value; });
}

// ---- --json ----

// JSON has no Inf and no NaN, so these are written as strings.
json number_or_name(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json states(const Row& row, const std::vector<double>& scores, bool subtract) {
  json result;
  for (const double score : scores) {
    const State state = attend(row, score, subtract ? score : 0);
    result["p"].push_back(number_or_name(state.p));
    result["l"].push_back(number_or_name(state.l));
    result["o"].push_back(number_or_name(state.o));
    result["output"].push_back(number_or_name(state.output));
  }
  return result;
}

json report(int64_t own_keys) {
  std::vector<double> scores;  // more points where fp16 overflows
  for (double score = 0; score <= 100; score += score < 12.5 ? 0.125 : 0.5) scores.push_back(score);
  json rows;
  std::vector<int64_t> all_keys{1, 64, 256};
  if (own_keys > 0) all_keys = {own_keys};
  for (const Types& types : kTypes) {
    for (const int64_t keys : all_keys) {
      for (const float value : {0x1p-7f, 1.0f, 0x1p7f}) {  // powers of two, so no rounding
        const Row row{types, keys, value};
        const auto finite = [&](float State::*number) {
          return fine_up_to(row, [=](const State& state) { return std::isfinite(state.*number); });
        };
        json without = states(row, scores, false);
        without["finite_up_to"] = {
            {"p", finite(&State::p)}, {"l", finite(&State::l)}, {"o", finite(&State::o)}};
        without["right_up_to"] = right_up_to(row);
        rows.push_back({{"p_type", fa::name(types.p)},
                        {"sums_type", fa::name(types.sums)},
                        {"p_largest", largest_finite(types.p)},
                        {"sums_largest", largest_finite(types.sums)},
                        {"keys", keys},
                        {"value", value},
                        {"without_maximum", without},
                        {"with_maximum", states(row, scores, true)}});
      }
    }
  }
  return {{"scores", scores}, {"rows", rows}};
}

}  // namespace

int overflow_command(const CommandOptions& options) {
  const int64_t lengths[] = {1, 64, 256, 1024, 4096};
  std::cout << "Without the maximum: the largest score at which n equal keys still average to 1.\n";
  std::cout << text("%-22s", "n =");
  for (const int64_t keys : lengths) std::cout << text("%9lld", (long long)keys);
  std::cout << '\n';
  for (const Types& types : kTypes) {
    std::cout << text("%-22s", types.name);
    for (const int64_t keys : lengths) std::cout << text("%9.2f", right_up_to({types, keys, 1}));
    std::cout << '\n';
  }
  for (const double largest : {largest_finite(Dtype::f32), largest_finite(Dtype::f16)}) {
    std::cout << text("ln %-9.4g - ln n    ", largest);
    for (const int64_t keys : lengths) {
      std::cout << text("%9.2f", std::log(largest) - std::log(static_cast<double>(keys)));
    }
    std::cout << '\n';
  }
  if (!options.json.empty()) fa::write_json(options.json, report(options.keys));
  return fa::kAgreed;
}

}  // namespace ch02
