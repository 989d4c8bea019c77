// C++ and NumPy check each other: the golden cases of reference/make_cases.py, computed in float64
// by attention.py, must come out of common/reference.cpp to 1e-12; and common/check.cpp must say of
// right and wrong outputs what check.py says.

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/backward.hpp"
#include "common/check.hpp"
#include "common/file.hpp"
#include "common/gradients.hpp"
#include "common/npy.hpp"
#include "common/problem.hpp"
#include "common/reference.hpp"

namespace {

const std::string kGolden = FA_BINARY_DIR "/golden/";

struct GoldenCase {
  std::string name, dtype;
  fa::Problem problem;
  std::vector<double> o, lse;
};

std::vector<std::string> case_names() {
  std::vector<std::string> names = nlohmann::json::parse(fa::read_file(kGolden + "cases.json"));
  for (const char* list : {"masks_and_shapes.json", "sinks.json", "trees.json"}) {
    const std::vector<std::string> more = nlohmann::json::parse(fa::read_file(kGolden + list));
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

// The inputs of a case; fails if one of them is not an fp32 number.
std::vector<float> read_input(const std::string& path, const std::vector<int64_t>& shape) {
  const fa::NpyArray array = fa::read_npy(path);
  CHECK(array.shape == shape);
  const std::vector<double> exact = array.doubles();
  std::vector<float> values = array.floats();
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(exact[i] == values[i]);
  return values;
}

GoldenCase read_case(const std::string& name) {
  const std::string directory = kGolden + name + "/";
  const nlohmann::json json = nlohmann::json::parse(fa::read_file(directory + "case.json"));
  GoldenCase result{name, json["dtype"], {}, {}, {}};
  fa::Problem& problem = result.problem;
  const nlohmann::json& sizes = json["shape"];
  problem.shape = {sizes["batch"], sizes["heads"], sizes["q"], sizes["kv"], sizes["dim"]};
  problem.scale = json["scale"];
  problem.causal = json["causal"];
  problem.dtype = result.dtype == "f16"    ? fa::Dtype::f16
                  : result.dtype == "bf16" ? fa::Dtype::bf16
                                           : fa::Dtype::f32;
  const auto [batch, heads, q, kv, dim] = problem.shape;
  const int64_t kv_heads = json.value("kv_heads", heads);
  problem.group = heads / kv_heads;
  if (json.contains("window")) {
    problem.window_left = json["window"][0];
    problem.window_right = json["window"][1];
  }
  problem.softcap = json.value("softcap", 0.0);
  problem.alibi = json.value("alibi", false);
  problem.q_starts = json.value("cu_seqlens_q", std::vector<int64_t>{});
  problem.kv_starts = json.value("cu_seqlens_k", std::vector<int64_t>{});
  const std::vector<int> parents = json.value("tree", std::vector<int>{});
  for (int64_t row = 0; !parents.empty() && row < batch * q; ++row) {
    problem.tree.push_back(0);
    for (int64_t token = row % q; token >= 0; token = parents[token])
      problem.tree.back() |= uint64_t{1} << token;
  }
  fa::check_mask(problem);
  if (std::filesystem::exists(directory + "sinks.npy")) {
    problem.sinks = fa::load_sinks(directory + "sinks.npy", heads);
  }
  problem.q = read_input(directory + "q.npy", {batch, heads, q, dim});
  problem.k = read_input(directory + "k.npy", {batch, kv_heads, kv, dim});
  problem.v = read_input(directory + "v.npy", {batch, kv_heads, kv, dim});
  const fa::NpyArray o = fa::read_npy(directory + "o.npy"),
                     lse = fa::read_npy(directory + "lse.npy");
  REQUIRE(o.shape == std::vector<int64_t>{batch, heads, q, dim});
  REQUIRE(lse.shape == std::vector<int64_t>{batch, heads, q});
  REQUIRE(o.type == fa::NpyType::f64);
  result.o = o.doubles();
  result.lse = lse.doubles();
  return result;
}

// |got - expected| <= 1e-12, relative above 1; infinities must be equal. False for NaN.
bool agrees(double got, double expected) {
  return got == expected || std::abs(got - expected) <= 1e-12 * std::max(1.0, std::abs(expected));
}

}  // namespace

TEST_CASE("there are golden cases of every type") {
  const std::vector<std::string> names = case_names();
  CHECK(names.size() >= 20);
  int f64 = 0, f32 = 0, f16 = 0, bf16 = 0, causal = 0;
  for (const std::string& name : names) {
    const GoldenCase golden = read_case(name);
    f64 += golden.dtype == "f64";
    f32 += golden.dtype == "f32";
    f16 += golden.dtype == "f16";
    bf16 += golden.dtype == "bf16";
    causal += golden.problem.causal;
  }
  CHECK(f64 + f32 + f16 + bf16 == static_cast<int>(names.size()));
  for (const int count : {f64, f32, f16, bf16, causal}) CHECK(count > 0);
}

TEST_CASE("float64 attention in C++ and in NumPy agree to 1e-12") {
  for (const std::string& name : case_names()) {
    CAPTURE(name);
    const GoldenCase golden = read_case(name);
    const fa::Shape& shape = golden.problem.shape;
    std::vector<double> o(shape.dim);
    double largest = 0;
    int64_t wrong = 0;
    for (int64_t row = 0; row < shape.rows(); ++row) {
      const fa::RowFacts facts = fa::reference_row(golden.problem, row / shape.q, row % shape.q, o);
      wrong += !agrees(facts.lse, golden.lse[row]);
      for (int64_t d = 0; d < shape.dim; ++d) {
        const double expected = golden.o[row * shape.dim + d];
        wrong += !agrees(o[d], expected);
        largest = std::max(largest, std::abs(o[d] - expected));
      }
    }
    CAPTURE(largest);
    CHECK(wrong == 0);
  }
}

TEST_CASE("the C++ checker accepts NumPy's answers, and not a changed one") {
  for (const std::string& name : case_names()) {
    CAPTURE(name);
    const GoldenCase golden = read_case(name);
    std::vector<float> o(golden.o.begin(), golden.o.end());
    const std::vector<float> lse(golden.lse.begin(), golden.lse.end());
    const fa::CheckResult result = fa::check_output(golden.problem, o, lse);
    CHECK(result.passed());
    o.back() += static_cast<float>(result.rms_expected);  // four times the widest bound
    CHECK_FALSE(fa::check_output(golden.problem, o, lse).passed());
    o.back() = std::nanf("");
    CHECK_FALSE(fa::check_output(golden.problem, o, lse).passed());
  }
}

TEST_CASE("the C++ checker's verdicts and bounds are NumPy's") {
  auto verdicts = nlohmann::json::parse(fa::read_file(kGolden + "verdicts.json"));
  for (const auto& more :
       nlohmann::json::parse(fa::read_file(kGolden + "masks_and_shapes_verdicts.json"))) {
    verdicts.push_back(more);
  }
  std::map<std::string, int> seen;
  for (const auto& verdict : verdicts) {
    const std::string name = verdict["case"], output = verdict["output"];
    CAPTURE(name);
    CAPTURE(output);
    const GoldenCase golden = read_case("verdicts/" + name);
    const std::string path = kGolden + "verdicts/" + name + "/" + output;
    const std::vector<float> o = fa::read_npy(path + "_o.npy").floats();
    const std::vector<float> lse = fa::read_npy(path + "_lse.npy").floats();
    const fa::CheckResult result = fa::check_output(golden.problem, o, lse);
    const std::string said = result.passed()       ? "agreed"
                             : result.inconclusive ? "inconclusive"
                                                   : "wrong";
    CHECK(said == verdict["verdict"]);
    ++seen[said];
    // NumPy's yardstick sums in another order: it errs elsewhere, if only in fp32's last digits.
    const bool only_fp32_errs = golden.dtype == "f32" || name == "bf16_too_sharp";
    const double tolerance = only_fp32_errs ? 0.3 : 0.02;
    CHECK(result.o.bound == doctest::Approx(verdict["bound"]).epsilon(tolerance));
    CHECK(result.rms_bound == doctest::Approx(verdict["rms_bound"]).epsilon(tolerance));
    CHECK(result.lse.bound == doctest::Approx(verdict["lse_bound"]).epsilon(tolerance));
    if (only_fp32_errs) continue;
    CHECK(result.o.mismatches == verdict["wrong"]);
    CHECK(result.lse.mismatches == verdict["lse_wrong"]);
  }
  CHECK(seen["agreed"] > 20);
  CHECK(seen["wrong"] > 80);
  CHECK(seen["inconclusive"] > 10);
}

TEST_CASE("float64 gradients in C++ and in NumPy agree to 1e-12") {
  std::map<std::string, int> seen;
  for (const auto& verdict : nlohmann::json::parse(fa::read_file(kGolden + "backward.json"))) {
    const std::string name = verdict["case"];
    if (seen[name]++ > 0) continue;
    CAPTURE(name);
    const GoldenCase golden = read_case("backward/" + name);
    const std::string directory = kGolden + "backward/" + name + "/";
    const fa::Gradients gradients =
        fa::reference_gradients(golden.problem, fa::read_npy(directory + "do.npy").floats());
    const auto agree = [&](const std::vector<double>& got, const std::string& tensor) {
      const std::vector<double> expected = fa::read_npy(directory + tensor + ".npy").doubles();
      REQUIRE(got.size() == expected.size());
      double largest = 1;  // terms of a gradient may be larger than their sum
      int64_t wrong = 0;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < got.size(); ++i) {
        wrong += !(std::abs(got[i] - expected[i]) <= 1e-12 * largest);
      }
      CHECK(wrong == 0);
    };
    if (name == "bf16_too_sharp") continue;  // scores of 10⁸ lose their last digits in any order
    agree(gradients.dq, "dq");
    agree(gradients.dk, "dk");
    agree(gradients.dv, "dv");
  }
  CHECK(seen.size() > 8);
}

TEST_CASE("the C++ checker's verdicts and bounds of gradients are NumPy's") {
  std::map<std::string, int> seen;
  for (const auto& verdict : nlohmann::json::parse(fa::read_file(kGolden + "backward.json"))) {
    if (verdict["output"].is_null()) continue;  // float64 has no yardstick here
    const std::string name = verdict["case"], output = verdict["output"];
    CAPTURE(name);
    CAPTURE(output);
    const GoldenCase golden = read_case("backward/" + name);
    const std::string directory = kGolden + "backward/" + name + "/";
    const auto read = [&](const std::string& tensor) {
      const std::string path = directory + output + "_" + tensor + ".npy";
      const bool changed = std::filesystem::exists(path);
      return fa::read_npy(changed ? path : directory + "exact_" + tensor + ".npy").floats();
    };
    const std::vector<float> d_o = fa::read_npy(directory + "do.npy").floats();
    const fa::GradientCheck result =
        fa::check_gradients(golden.problem, d_o, read("dq"), read("dk"), read("dv"));
    const std::string said = result.passed()         ? "agreed"
                             : result.inconclusive() ? "inconclusive"
                                                     : "wrong";
    CHECK(said == verdict["verdict"]);
    ++seen[said];
    // NumPy's yardstick sums in another order: it errs elsewhere, if only in fp32's last digits.
    const bool only_fp32_errs = golden.dtype == "f32" || name == "bf16_too_sharp";
    const double tolerance = only_fp32_errs ? 0.3 : 0.02;
    const fa::GradientComparison* const all[] = {&result.dq, &result.dk, &result.dv};
    for (const size_t which : {0, 1, 2}) {
      CAPTURE(which);
      const fa::GradientComparison& gradient = *all[which];
      CHECK(gradient.values.bound ==
            doctest::Approx(verdict["bounds"][which].get<double>()).epsilon(tolerance));
      CHECK(gradient.rms_bound ==
            doctest::Approx(verdict["rms_bounds"][which].get<double>()).epsilon(tolerance));
      if (!only_fp32_errs) CHECK(gradient.values.mismatches == verdict["wrong"][which]);
    }
  }
  CHECK(seen["agreed"] > 18);
  CHECK(seen["wrong"] > 70);
  CHECK(seen["inconclusive"] > 1);
}

TEST_CASE("one to six: the numbers of the softmax ladder") {
  const GoldenCase golden = read_case("one_to_six");
  std::vector<double> o(1);
  fa::reference_row(golden.problem, 0, 0, o);
  CHECK(o[0] == doctest::Approx(5.4329).epsilon(1e-5));
}
