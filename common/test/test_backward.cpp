// Compares the reference of the gradients with differences of the loss, and tests the check of
// gradients, which must report every error.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/backward.hpp"
#include "common/file.hpp"
#include "common/gradients.hpp"
#include "common/npy.hpp"
#include "common/program.hpp"
#include "common/reference.hpp"

using namespace fa;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Outputs = std::array<std::vector<float>, 3>;  // dQ, dK, dV

// Changes of a random problem.
struct Options {
  int64_t group = 1;
  bool causal = false;
  int64_t left = -1, right = -1;
  double softcap = 0;
  bool alibi = false;
  std::vector<int64_t> q_starts = {}, kv_starts = {};
};

Problem make_problem(const Shape& shape, Dtype dtype, const Options& options = {},
                     uint64_t seed = 1) {
  Problem problem = random_problem(shape, dtype, seed, 1, options.group);
  problem.causal = options.causal;
  problem.window_left = options.left;
  problem.window_right = options.right;
  problem.softcap = options.softcap;
  problem.alibi = options.alibi;
  problem.q_starts = options.q_starts;
  problem.kv_starts = options.kv_starts;
  check_mask(problem);
  problem.d_o = random_values(like_q(problem), dtype, seed, 0);
  return problem;
}

std::vector<float> rounded(const std::vector<double>& values, Dtype dtype) {
  std::vector<float> result;
  for (const double value : values) result.push_back(round_to(dtype, static_cast<float>(value)));
  return result;
}

// Returns gradients with only the unavoidable rounding error of their type.
Outputs right_answer(const Problem& problem) {
  const Gradients exact = reference_gradients(problem, problem.d_o);
  return {rounded(exact.dq, problem.dtype), rounded(exact.dk, problem.dtype),
          rounded(exact.dv, problem.dtype)};
}

// Computes plain attention's backward pass with fp32 scores, one number at a time and every sum in
// sequence. It shares only the mask with the reference. `late_division` rounds P before the
// division by its sum, as kernels do, and the forward pass does the same. The other switches are
// variants.
struct Variant {
  bool late_division = false, no_d = false, no_scale = false, top_left = false,
       no_softcap_factor = false;
};

Outputs plain_backward(const Problem& problem, const Variant& variant = {}) {
  const Shape& shape = problem.shape;
  const auto round = [&](float x) { return round_to(problem.dtype, x); };
  const float scale = static_cast<float>(problem.scale), cap = static_cast<float>(problem.softcap);
  Outputs out{std::vector<float>(problem.q.size()), std::vector<float>(problem.k.size()),
              std::vector<float>(problem.v.size())};
  for (int64_t row = 0; row < shape.rows(); ++row) {
    const int64_t query = row % shape.q, batch_head = row / shape.q;
    const int64_t of_q = batch_head % shape.heads, first = batch_head / problem.group * shape.kv;
    const float* const q = problem.q.data() + row * shape.dim;
    const float* const d_o = problem.d_o.data() + row * shape.dim;
    Keys keys = problem.keys_of(0, query);
    if (variant.top_left) keys.end = std::min(keys.end, query + 1);
    const int64_t visible = keys.end - keys.begin;
    if (visible <= 0) continue;
    const float* const k = problem.k.data() + (first + keys.begin) * shape.dim;
    const float* const v = problem.v.data() + (first + keys.begin) * shape.dim;
    const auto product = [&](const float* a, const float* b) {
      float sum = 0;
      for (int64_t d = 0; d < shape.dim; ++d) sum += a[d] * b[d];
      return sum;
    };
    std::vector<float> s(visible), factor(visible, 1), o(shape.dim);
    for (int64_t j = 0; j < visible; ++j) {
      s[j] = scale * product(q, k + j * shape.dim);
      if (cap > 0) {
        const float t = std::tanh(s[j] / cap);
        s[j] = cap * t;
        if (!variant.no_softcap_factor) factor[j] = 1 - t * t;
      }
      if (problem.alibi) {
        s[j] -= static_cast<float>(alibi_slope(of_q, shape.heads)) *
                static_cast<float>(std::abs(keys.begin + j - keys.diagonal));
      }
    }
    const float m = *std::max_element(s.begin(), s.end());
    float l = 0, big_d = 0;
    for (const float score : s) l += std::exp(score - m);
    const float lse = m + std::log(l);
    for (int64_t j = 0; j < visible; ++j) {
      const float p =
          variant.late_division ? round(std::exp(s[j] - m)) / l : round(std::exp(s[j] - lse));
      for (int64_t d = 0; d < shape.dim; ++d) o[d] += p * v[j * shape.dim + d];
    }
    for (int64_t d = 0; d < shape.dim; ++d) big_d += d_o[d] * round(o[d]);
    if (variant.no_d) big_d = 0;
    for (int64_t j = 0; j < visible; ++j) {
      const float p = std::exp(s[j] - lse), dp = product(d_o, v + j * shape.dim);
      const float ds = round(p * (dp - big_d) * factor[j]);
      const int64_t at = (first + keys.begin + j) * shape.dim;
      for (int64_t d = 0; d < shape.dim; ++d) {
        out[0][row * shape.dim + d] += ds * k[j * shape.dim + d];
        out[1][at + d] += ds * q[d];
        out[2][at + d] += round(p) * d_o[d];
      }
    }
  }
  for (float& value : out[0]) value = round(variant.no_scale ? value : scale * value);
  for (float& value : out[1]) value = round(variant.no_scale ? value : scale * value);
  for (float& value : out[2]) value = round(value);
  return out;
}

GradientCheck check(const Problem& problem, const Outputs& out, uint64_t seed = 0) {
  return check_gradients(problem, problem.d_o, out[0], out[1], out[2], seed);
}

const GradientComparison& part(const GradientCheck& result, size_t which) {
  return which == 0 ? result.dq : which == 1 ? result.dk : result.dv;
}

struct Named {
  Shape shape;
  Options options;
};

const Named kProblems[] = {
    {{2, 3, 17, 23, 16}, {}},
    {{1, 2, 64, 64, 64}, {.causal = true}},
    {{1, 2, 23, 57, 80}, {.causal = true}},
    {{1, 2, 57, 23, 64}, {.causal = true}},  // 34 queries see no key
    {{2, 6, 33, 40, 64}, {.group = 3, .causal = true}},
    {{1, 4, 100, 70, 128}, {.group = 4}},
    {{1, 2, 60, 80, 64}, {.left = 10, .right = 5}},
    {{1, 2, 80, 50, 16}, {.left = 4, .right = 7}},
    {{1, 4, 50, 60, 32}, {.group = 2, .causal = true, .softcap = 1.5, .alibi = true}},
    {{1, 2, 33, 45, 64},
     {.causal = true, .q_starts = {0, 3, 3, 4, 24, 33}, .kv_starts = {0, 5, 9, 9, 39, 45}}},
    {{1, 1, 1, 200, 64}, {}},
};

}  // namespace

TEST_CASE("the gradients are those of the loss: central differences in float64") {
  const Named problems[] = {
      {{2, 4, 5, 7, 6}, {.group = 2, .causal = true, .softcap = 1.5}},
      {{1, 2, 7, 5, 6}, {.causal = true}},  // two queries see no key
      {{1, 4, 6, 9, 8}, {.group = 4, .left = 3, .right = 1, .softcap = 2, .alibi = true}},
      {{1, 2, 7, 9, 6}, {.causal = true, .q_starts = {0, 3, 3, 7}, .kv_starts = {0, 2, 4, 9}}},
  };
  for (const Named& named : problems) {
    Problem problem = make_problem(named.shape, Dtype::bf16, named.options);
    const Shape& shape = problem.shape;
    const Gradients gradients = reference_gradients(problem, problem.d_o);
    const auto loss = [&] {
      double sum = 0;
      std::vector<double> o(shape.dim);
      for (int64_t row = 0; row < shape.rows(); ++row) {
        reference_row(problem, row / shape.q, row % shape.q, o);
        for (int64_t d = 0; d < shape.dim; ++d) sum += problem.d_o[row * shape.dim + d] * o[d];
      }
      return sum;
    };
    // bf16 numbers plus or minus this are fp32 numbers, so the inputs of the differences are exact.
    constexpr float kStep = 0x1p-13f;
    const auto agrees = [&](std::vector<float>& input, const std::vector<double>& gradient) {
      REQUIRE(gradient.size() == input.size());
      double largest_gradient = 0, largest_error = 0;
      for (size_t i = 0; i < input.size(); ++i) {
        const float value = input[i];
        input[i] = value + kStep;
        const double above = loss();
        input[i] = value - kStep;
        const double below = loss();
        input[i] = value;
        const double error = std::abs((above - below) / (2 * kStep) - gradient[i]);
        largest_error = max_keeping_nan(error, largest_error);
        largest_gradient = std::max(largest_gradient, std::abs(gradient[i]));
      }
      CHECK(largest_gradient > 0.1);
      CHECK(largest_error <= 1e-6 * largest_gradient);
    };
    agrees(problem.q, gradients.dq);
    agrees(problem.k, gradients.dk);
    agrees(problem.v, gradients.dv);
  }
}

TEST_CASE("right gradients pass, and those of a plain implementation, in every type") {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const Named& named : kProblems) {
      for (const uint64_t seed : {1, 2, 3}) {
        const Problem problem = make_problem(named.shape, dtype, named.options, seed);
        CAPTURE(to_string(problem.shape));
        for (const Outputs& out : {right_answer(problem), plain_backward(problem),
                                   plain_backward(problem, {.late_division = true})}) {
          const GradientCheck result = check(problem, out);
          CHECK_MESSAGE(result.passed(), describe(result, problem));
          CHECK(result.dq.rows_checked == problem.shape.rows());
          CHECK(result.dk.rows_checked == problem.kv_elements() / problem.shape.dim);
        }
      }
    }
  }
}

TEST_CASE("gradients of a mistake fail") {
  const auto fails = [](const Problem& problem, const Variant& variant, size_t where) {
    const GradientCheck result = check(problem, plain_backward(problem, variant));
    CHECK_FALSE(result.passed());
    CHECK_FALSE(result.inconclusive());  // the error is detected
    CHECK(part(result, where).values.mismatches > 0);
    CHECK(describe(result, problem).rfind("FAILED", 0) == 0);
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const Named& named : kProblems) {
      const Problem problem = make_problem(named.shape, dtype, named.options);
      CAPTURE(to_string(problem.shape));
      for (const size_t where : {0, 1}) {
        fails(problem, {.no_d = true}, where);
        fails(problem, {.no_scale = true}, where);
        if (problem.softcap > 0) fails(problem, {.no_softcap_factor = true}, where);
      }
      if (problem.causal && problem.shape.q < problem.shape.kv && problem.q_starts.empty()) {
        for (const size_t where : {0, 1, 2}) fails(problem, {.top_left = true}, where);
      }
    }
  }
}

TEST_CASE("one bad element anywhere fails, and is named") {
  const Problem problem = make_problem({2, 4, 9, 13, 16}, Dtype::bf16, {.group = 2});
  const Outputs right = right_answer(problem);
  for (const size_t which : {0, 1, 2}) {
    for (const float bad : {kNaN, kInfinity, -kInfinity, 7.0f}) {
      for (const size_t where : {size_t{0}, size_t{200}, right[which].size() - 1}) {
        Outputs out = right;
        out[which][where] = bad;
        const GradientCheck result = check(problem, out);
        CHECK_FALSE(result.passed());
        const Comparison& values = part(result, which).values;
        CHECK(values.mismatches == 1);
        CHECK(values.first_bad == static_cast<int64_t>(where));
        CHECK(values.nonfinite == (std::isfinite(bad) ? 0 : 1));
        for (const size_t other : {0, 1, 2}) {
          CHECK((other == which || part(result, other).values.mismatches == 0));
        }
      }
    }
  }
}

TEST_CASE("an element or a tensor that is not written, and a wrong shape, fail") {
  const Problem problem = make_problem({1, 2, 9, 13, 16}, Dtype::f32);
  const Outputs right = right_answer(problem);
  CHECK(check(problem, right).passed());
  for (const size_t which : {0, 1, 2}) {
    Outputs out = right;
    out[which].assign(out[which].size(), kNaN);
    CHECK(part(check(problem, out), which).values.nonfinite ==
          static_cast<int64_t>(out[which].size()));
    CHECK_FALSE(check(problem, out).passed());
    out = right;
    out[which][100] = 0;
    CHECK_FALSE(check(problem, out).passed());
    out = right;
    out[which].pop_back();
    CHECK_FALSE(check(problem, out).passed());
    CHECK_FALSE(part(check(problem, out), which).values.same_shape);
    out[which].clear();
    CHECK_FALSE(check(problem, out).passed());
  }
  CHECK_FALSE(check_gradients(problem, {}, right[0], right[1], right[2]).passed());
}

TEST_CASE("a small error that leans the same way everywhere fails") {
  const Problem problem = make_problem({1, 2, 64, 128, 64}, Dtype::bf16);
  const Outputs right = right_answer(problem);
  for (const size_t which : {0, 1, 2}) {
    Outputs out = right;
    const double bound = part(check(problem, out), which).values.bound;
    for (float& value : out[which]) value += static_cast<float>(0.6 * bound);
    const GradientCheck result = check(problem, out);
    CHECK(part(result, which).values.passed());  // each element is within its bound
    CHECK_FALSE(result.passed());
    CHECK(describe(result, problem).find("lean the same way") != std::string::npos);
  }
}

TEST_CASE("where nothing is left of dP − D, fp32's noise is allowed and no more") {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const Shape& shape : {Shape{1, 1, 1, 1, 64}, Shape{2, 2, 40, 1, 128}}) {
      const Problem problem = make_problem(shape, dtype);  // one key, so P = 1 and dQ = dK = 0
      Outputs out = plain_backward(problem);
      const GradientCheck result = check(problem, out);
      CHECK_MESSAGE(result.passed(), describe(result, problem));
      CHECK(result.dq.rms_expected <= 1e-12);
      for (const size_t which : {0, 1}) {
        Outputs wrong = out;
        wrong[which][3] = 1e-2f;
        CHECK_FALSE(check(problem, wrong).passed());
        wrong[which][3] = kNaN;
        CHECK_FALSE(check(problem, wrong).passed());
      }
    }
    // If no query sees a key, every gradient must be 0.
    Problem hidden = make_problem({1, 2, 9, 5, 16}, dtype);
    hidden.modify_score = [](double, int64_t, int64_t, int64_t) { return -HUGE_VAL; };
    Outputs zero{std::vector<float>(hidden.q.size()), std::vector<float>(hidden.k.size()),
                 std::vector<float>(hidden.v.size())};
    CHECK(check(hidden, zero).passed());
    for (const size_t which : {0, 1, 2}) {
      Outputs wrong = zero;
      wrong[which][7] = 1e-6f;
      CHECK_FALSE(check(hidden, wrong).passed());
    }
  }
}

TEST_CASE("scores far apart at every length: right gradients agree, a NaN or Inf does not") {
  // q · 5 and k · 3 are from FlashAttention's test_flash_attn_bwd_overflow.
  for (const int64_t length : {1, 2, 5, 17, 128}) {
    for (const bool causal : {false, true}) {
      for (const uint64_t seed : {1, 2, 3, 4}) {
        Problem problem =
            make_problem({1, 5, length, length, 64}, Dtype::bf16, {.causal = causal}, seed);
        for (float& value : problem.q) value = round_to(Dtype::bf16, 5 * value);
        for (float& value : problem.k) value = round_to(Dtype::bf16, 3 * value);
        Outputs out = plain_backward(problem, {.late_division = seed % 2 == 1});
        const GradientCheck result = check(problem, out);
        CHECK_MESSAGE(result.agrees(), describe(result, problem));
        // With two keys one has nearly all the weight, and O in bf16 cancels dP − D.
        CHECK((result.passed() || length == 2));
        for (const float bad : {kNaN, kInfinity}) {
          out[0][65 % out[0].size()] = bad;
          CHECK_FALSE(check(problem, out).agrees());
        }
      }
    }
  }
  Problem two = make_problem({1, 5, 2, 2, 128}, Dtype::bf16, {}, 2);
  for (float& value : two.q) value = round_to(Dtype::bf16, 5 * value);
  for (float& value : two.k) value = round_to(Dtype::bf16, 3 * value);
  CHECK(check(two, plain_backward(two)).passed());
  CHECK(check(two, right_answer(two)).passed());
}

TEST_CASE("few queries: a right kernel does not fail because plain attention was lucky") {
  for (const int64_t queries : {1, 2, 3}) {
    for (const int64_t keys : {2, 3, 40}) {
      for (uint64_t seed = 0; seed < 100; ++seed) {
        const Problem problem = make_problem({1, 1, queries, keys, 64}, Dtype::bf16, {}, seed);
        const Outputs out = plain_backward(problem, {.late_division = true});
        const GradientCheck result = check(problem, out);
        CHECK_MESSAGE(result.agrees(), describe(result, problem));
      }
    }
  }
}

TEST_CASE("a bound above a quarter of the gradient proves nothing: inconclusive, and no pass") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Problem problem = make_problem({1, 1, 64, 100, 64}, dtype);
    problem.scale = 1e6;  // scores of 10⁷, which fp32 resolves to within 1
    Outputs out = right_answer(problem);
    const GradientCheck result = check(problem, out);
    CHECK(result.agrees());
    CHECK(result.inconclusive());
    CHECK_FALSE(result.passed());
    CHECK(describe(result, problem).rfind("INCONCLUSIVE: ", 0) == 0);
    out[1][7] = kNaN;  // wrong for any bound
    CHECK_FALSE(check(problem, out).inconclusive());
    CHECK_FALSE(check(problem, out).passed());
  }
}

TEST_CASE("the bounds of 16-bit gradients are those of their roundings, fp32's lines are small") {
  for (const Named& named : kProblems) {
    const Problem problem = make_problem(named.shape, Dtype::bf16, named.options);
    const GradientCheck result = check(problem, right_answer(problem));
    for (const size_t which : {0, 1, 2}) {
      CHECK(part(result, which).fp32_error < 0.1 * part(result, which).values.bound);
    }
  }
}

TEST_CASE("large problems are sampled, but a NaN in a row that was not sampled still fails") {
  constexpr double kBudget = 1e8;
  // With many heads, some heads are checked whole. If a head is too large, some of its rows are.
  const Shape many{2, 20, 64, 64, 64}, long_ones{1, 2, 600, 500, 32};
  for (const Shape& shape : {many, long_ones}) {
    const Problem problem = make_problem(shape, Dtype::bf16);
    const Outputs right = right_answer(problem);
    const auto sampled = [&](const Outputs& out, uint64_t seed) {
      return check_gradients(problem, problem.d_o, out[0], out[1], out[2], seed, kBudget);
    };
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const GradientCheck result = sampled(right, seed);
      CHECK(result.passed());
      for (const size_t which : {0, 1, 2}) {
        CHECK(part(result, which).rows_checked < part(result, which).rows);
        CHECK(part(result, which).rows_checked >= 64);
      }
    }
    for (const size_t which : {0, 1, 2}) {
      Outputs out = right;
      for (const size_t piece : {1, 2, 3}) out[which][out[which].size() * piece / 4 + 5] = kNaN;
      const GradientCheck result = sampled(out, 3);
      CHECK(part(result, which).values.nonfinite == 3);
      CHECK(std::isnan(part(result, which).values.max_abs_error));
      CHECK_FALSE(result.passed());
      CHECK_FALSE(result.inconclusive());
      out = right;
      for (float& value : out[which]) value *= 1.1f;
      CHECK_FALSE(sampled(out, 3).passed());
    }
  }
}

TEST_CASE("a sample of whole heads has the first and the last") {
  const Problem problem = make_problem({2, 20, 64, 64, 64}, Dtype::bf16);
  for (const size_t which : {0, 1, 2}) {
    for (const bool at_end : {false, true}) {
      Outputs out = right_answer(problem);
      out[which][at_end ? out[which].size() - 1 : 0] += 5;
      const GradientCheck result =
          check_gradients(problem, problem.d_o, out[0], out[1], out[2], 1, 1e8);
      CHECK(part(result, which).values.mismatches == 1);
    }
  }
}

TEST_CASE("the verdict on a backward pass has one report per gradient") {
  Tensors tensors{make_problem({2, 4, 9, 13, 16}, Dtype::bf16, {.group = 2})};
  const Outputs right = right_answer(tensors);
  tensors.dq = right[0], tensors.dk = right[1], tensors.dv = right[2];
  Verdict verdict = check_backward(tensors, 0);
  CHECK(verdict.passed);
  CHECK((*verdict.report)["passed"] == true);
  CHECK((*verdict.report)["elements"] == 2 * 4 * 9 * 16 + 2 * 2 * 2 * 13 * 16);
  CHECK((*verdict.report)["first_bad"].is_null());
  tensors.dk[2 * 13 * 16 + 16 + 3] = kNaN;
  verdict = check_backward(tensors, 0);
  CHECK_FALSE(verdict.passed);
  CHECK((*verdict.report)["passed"] == false);
  CHECK((*verdict.report)["nonfinite"] == 1);
  CHECK((*verdict.report)["max_abs_error"].is_null());
  CHECK((*verdict.report)["first_bad"]["tensor"] == "dK");
  CHECK((*verdict.report)["first_bad"]["index"] == std::vector<int64_t>{1, 0, 1, 3});
  CHECK((*verdict.report)["first_bad"]["got"].is_null());
  CHECK((*verdict.report)["dQ"]["passed"] == true);
  CHECK((*verdict.report)["dK"]["passed"] == false);
  CHECK((*verdict.report)["dK"]["mismatches"] == 1);
  CHECK(verdict.text.find("dK[1, 0, 1, 3]: expected ") != std::string::npos);
}

TEST_CASE("a program with a backward pass takes dO and writes dQ, dK and dV") {
  static constexpr BreakDemo DEMO_LIST[] = {{"nan", "writes NaN", "--shape 1,4,5,7,4", "", false}};
  const Program program{.name = "ch99_test",
                        .about = "float64 gradients",
                        .default_shape = {1, 4, 5, 7, 4},
                        .breaks = {{"nan", 1}},
                        .dtypes = {Dtype::bf16},
                        .features = CAUSAL | KV_HEADS,
                        .passes = BACKWARD};
  const auto body = [&](Invocation& call) {
    const Arguments args = parse(call, program);
    Tensors tensors = make_tensors(args);
    const Outputs right = right_answer(tensors);
    CHECK(tensors.o.empty());
    for (const auto& [values, of] :
         {std::pair{&tensors.dq, 0}, {&tensors.dk, 1}, {&tensors.dv, 2}}) {
      CHECK(values->size() == right[of].size());
      CHECK(std::all_of(values->begin(), values->end(),
                        [](float value) { return std::isnan(value); }));
      *values = right[of];
    }
    if (args.break_bits & 1) tensors.dv.back() = kNaN;
    return report(args, tensors, {}, check_backward(tensors, args.seed));
  };
  const std::string directory = FA_BINARY_DIR "/test_backward_files/";
  std::filesystem::create_directories(directory);
  std::ostringstream error;
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program.name);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::ostringstream out;
    error.str("");
    std::streambuf* const before = std::cout.rdbuf(out.rdbuf());
    std::streambuf* const error_before = std::cerr.rdbuf(error.rdbuf());
    const int code = breakable_main(static_cast<int>(arguments.size()), argv.data(),
                                    {"ch99_test", DEMO_LIST}, body);
    std::cout.rdbuf(before);
    std::cerr.rdbuf(error_before);
    return code;
  };
  const std::string dq = directory + "dq.npy", dk = directory + "dk.npy", dv = directory + "dv.npy",
                    json = directory + "check.json";
  CHECK(run({"--causal", "--kv-heads", "2", "--dq", dq, "--dk", dk, "--dv", dv, "--json", json}) ==
        0);
  CHECK(read_npy(dq).shape == std::vector<int64_t>{1, 4, 5, 4});
  CHECK(read_npy(dk).shape == std::vector<int64_t>{1, 2, 7, 4});
  CHECK(read_npy(dv).shape == std::vector<int64_t>{1, 2, 7, 4});
  CHECK(nlohmann::json::parse(read_file(json))["check"]["dK"]["passed"] == true);
  CHECK(run({"--break", "nan", "--shape", "1,4,5,7,4", "--json", json}) == 1);
  CHECK(nlohmann::json::parse(read_file(json))["check"]["first_bad"]["tensor"] == "dV");
  CHECK(run({"--q", dq, "--k", dk, "--v", dv, "--do", dq}) == 0);
  const std::vector<float> first = read_npy(dq).floats();
  CHECK(run({"--dq", dq, "--seed", "1"}) == 0);
  CHECK(read_npy(dq).floats() != first);
  CHECK(run({"--out", dq}) == 2);  // it has no O
  CHECK(run({"--q", dq, "--k", dk, "--v", dv}) == 2);
  CHECK(error.str() == "error: --q --k --v --do go together: give all of them\n");
  CHECK(run({"--q", dq, "--k", dk, "--v", dv, "--do", dk}) == 2);
  CHECK(error.str().find("expected [1, 4, 5, 4]") != std::string::npos);
}

TEST_CASE("a sample has the first and the last, and others for another seed") {
  CHECK(spread_sample(5, 9, 7) == std::vector<int64_t>{0, 1, 2, 3, 4});
  for (const uint64_t seed : {0, 1, 2}) {
    const std::vector<int64_t> some = spread_sample(1000, 10, seed);
    CHECK(some.size() == 10);
    CHECK(std::is_sorted(some.begin(), some.end()));
    CHECK(some.front() == 0);
    CHECK(some.back() == 999);
  }
  CHECK(spread_sample(1000, 10, 0) != spread_sample(1000, 10, 1));
  CHECK(spread_sample(1000, 1, 0) != spread_sample(1000, 1, 1));
}
