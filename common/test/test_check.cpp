// Tests the check of outputs, which must report every error.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "common/check.hpp"
#include "common/file.hpp"
#include "common/memory.hpp"
#include "common/parallel.hpp"
#include "common/reference.hpp"

using namespace fa;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Output {
  std::vector<float> o, lse;
};

// Returns the float64 result rounded to the problem's type, the most accurate output possible.
Output right_answer(const Problem& problem) {
  const Shape& shape = problem.shape;
  Output out{std::vector<float>(shape.q_elements()), std::vector<float>(shape.rows())};
  std::vector<double> row(shape.dim);
  for (int64_t i = 0; i < shape.rows(); ++i) {
    out.lse[i] = static_cast<float>(reference_row(problem, i / shape.q, i % shape.q, row).lse);
    for (int64_t d = 0; d < shape.dim; ++d) {
      out.o[i * shape.dim + d] = round_to(problem.dtype, static_cast<float>(row[d]));
    }
  }
  return out;
}

CheckResult check(const Problem& problem, const Output& out) {
  return check_output(problem, out.o, out.lse);
}

}  // namespace

TEST_CASE("the maximum of errors keeps a NaN, first, in the middle and last") {
  CHECK(max_keeping_nan(1, 2) == 2);
  CHECK(max_keeping_nan(2, 1) == 2);
  for (size_t place = 0; place < 3; ++place) {
    const std::vector<float> right = {1, 2, 3};
    std::vector<float> got = {1, 2.5f, 3};
    CHECK(largest_difference(got, right) == 0.5);
    got[place] = kNaN;
    CHECK(std::isnan(largest_difference(got, right)));
    CHECK(std::isnan(largest_difference(right, got)));
  }
  CHECK(std::isnan(largest_difference(std::vector<float>{1}, std::vector<double>{1, 2})));
  CHECK(largest_difference(std::vector<float>{}, std::vector<double>{}) == 0);
}

TEST_CASE("the right answer passes in every type, causal or not") {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const bool causal : {false, true}) {
      for (const Shape& shape :
           {Shape{1, 1, 1, 1, 64}, Shape{2, 3, 5, 9, 16}, Shape{1, 2, 9, 5, 8}}) {
        Problem problem = random_problem(shape, dtype, 1);
        problem.causal = causal;
        const CheckResult result = check(problem, right_answer(problem));
        CHECK(result.passed());
        CHECK(result.rows_checked == shape.rows());
      }
    }
  }
}

TEST_CASE("one bad element anywhere fails, and is named") {
  const Problem problem = random_problem({2, 3, 5, 9, 16}, Dtype::bf16, 2);
  const Output right = right_answer(problem);
  for (const float bad : {kNaN, kInfinity, -kInfinity, 7.0f, -0.5f}) {
    for (const size_t where : {size_t{0}, size_t{200}, right.o.size() - 1}) {
      Output out = right;
      out.o[where] = bad;
      const CheckResult result = check(problem, out);
      CHECK_FALSE(result.passed());
      CHECK(result.o.mismatches == 1);
      CHECK(result.o.first_bad == static_cast<int64_t>(where));
      CHECK(result.o.nonfinite == (std::isfinite(bad) ? 0 : 1));
      CHECK_FALSE(result.o.max_abs_error <= result.o.bound);
      CHECK(std::isnan(result.o.relative_error) == std::isnan(bad));
    }
  }
}

TEST_CASE("a NaN is not hidden by an error before or after it") {
  const std::vector<double> expected = {1, 2, 3, 4};
  for (int where = 0; where < 4; ++where) {
    std::vector<float> got = {9, 9, 9, 9};
    got[where] = kNaN;
    const Comparison result = compare({got.data(), 1, 4}, {expected.data(), 1, 4}, 100);
    CHECK(std::isnan(result.max_abs_error));
    CHECK(result.mismatches == 1);
    CHECK_FALSE(result.passed());
  }
}

TEST_CASE("the bound itself passes, anything above it fails") {
  const std::vector<double> expected = {1.0};
  const std::vector<float> at = {1.25f}, above = {std::nextafter(1.25f, 2.0f)};
  CHECK(compare({at.data(), 1, 1}, {expected.data(), 1, 1}, 0.25).passed());
  CHECK_FALSE(compare({above.data(), 1, 1}, {expected.data(), 1, 1}, 0.25).passed());
  CHECK_FALSE(compare({at.data(), 1, 1}, {expected.data(), 1, 1}, kNaN).passed());
}

TEST_CASE("a small error that leans the same way everywhere fails") {
  const Problem problem = random_problem({1, 2, 64, 128, 64}, Dtype::bf16, 7);
  Output out = right_answer(problem);
  const double bound = check(problem, out).o.bound;
  for (float& value : out.o) value += static_cast<float>(0.8 * bound);
  const CheckResult result = check(problem, out);
  CHECK(result.o.passed());  // each element is within its bound
  CHECK_FALSE(result.passed());
  CHECK(describe(result, problem.shape).find("lean the same way") != std::string::npos);
}

TEST_CASE("one row may lean by the rounding of its one large weight, many rows may not") {
  for (const int64_t rows : {int64_t{1}, int64_t{64}}) {
    const Problem problem = random_problem({1, 1, rows, 1000, 128}, Dtype::bf16, 16, 30);
    Output out = right_answer(problem);
    for (float& value : out.o) value = round_to(Dtype::bf16, value * (1 - 0.9f * 0x1p-8f));
    const CheckResult result = check(problem, out);
    CHECK(result.o.passed());
    CHECK(result.passed() == (rows == 1));
  }
}

TEST_CASE("no mistake hides at any input scale") {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const double input_scale : {1e-3, 1.0, 30.0, 300.0}) {
      CAPTURE(input_scale);
      const Problem problem = random_problem({1, 2, 64, 100, 64}, dtype, 9, input_scale);
      const Output right = right_answer(problem);
      CHECK(check(problem, right).passed());
      const auto is_wrong = [&](auto change) {
        Output out = right;
        for (size_t i = 0; i < out.o.size(); ++i) out.o[i] = change(out.o[i], i);
        const CheckResult result = check(problem, out);
        CHECK_FALSE(result.passed());
        CHECK_FALSE(result.inconclusive);  // the error is detected
        CHECK(describe(result, problem.shape).rfind("FAILED", 0) == 0);
      };
      is_wrong([](float x, size_t) { return 1.08f * x; });
      is_wrong([](float x, size_t) { return 0.92f * x; });
      is_wrong([](float x, size_t i) { return i / 64 >= 70 && i / 64 < 73 ? x + 1 : x; });
      is_wrong([](float x, size_t i) { return i == 5000 ? x + 0.5f : x; });
      is_wrong([&](float, size_t i) { return right.o[right.o.size() - 1 - i] + 0.1f; });
    }
  }
}

TEST_CASE("a bound above a quarter of the output proves nothing: inconclusive, and no pass") {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    Problem problem = random_problem({1, 1, 64, 100, 64}, dtype, 10);
    problem.scale = 1e6;  // scores of 10⁷, which fp32 resolves to within 1
    Output out = right_answer(problem);
    const CheckResult result = check(problem, out);
    CHECK(result.agrees());
    CHECK(result.inconclusive);
    CHECK_FALSE(result.passed());
    CHECK(result.o.bound > result.rms_expected / 4);
    CHECK(describe(result, problem.shape).rfind("INCONCLUSIVE: ", 0) == 0);
    CHECK(describe(result, problem.shape).find("it proves nothing") != std::string::npos);
    out.o[7] = kNaN;  // wrong for any bound
    CHECK_FALSE(check(problem, out).inconclusive);
    CHECK_FALSE(check(problem, out).passed());
  }
}

TEST_CASE("an output that is 0, or 0 in most rows, is no reason to be inconclusive") {
  Problem problem = random_problem({1, 1, 1000, 1, 8}, Dtype::bf16, 11);
  problem.causal = true;  // only the last query sees the key
  CHECK(check(problem, right_answer(problem)).passed());
  std::fill(problem.v.begin(), problem.v.end(), 0.0f);
  Output zero = right_answer(problem);
  CHECK(check(problem, zero).passed());
  zero.o[7999] = 1e-30f;
  CHECK_FALSE(check(problem, zero).passed());
}

TEST_CASE("a wrong shape or nothing at all fails") {
  const Problem problem = random_problem({1, 1, 4, 4, 8}, Dtype::f32, 3);
  Output out = right_answer(problem);
  out.o.pop_back();
  CHECK_FALSE(check(problem, out).passed());
  out = right_answer(problem);
  out.lse.pop_back();
  CHECK_FALSE(check(problem, out).passed());
  CHECK_FALSE(compare({nullptr, 0, 0}, {nullptr, 0, 0}, 1).passed());
  const float f[6] = {};
  const double d[6] = {};
  CHECK_FALSE(compare({f, 2, 3}, {d, 3, 2}, 1).passed());
}

TEST_CASE("an infinite log-sum-exp must be met exactly") {
  Problem problem = random_problem({1, 1, 4, 2, 8}, Dtype::f32, 4);
  problem.causal = true;  // rows 0 and 1 see no key
  Output out = right_answer(problem);
  CHECK(out.lse[0] == -kInfinity);
  CHECK(out.o[0] == 0);
  CHECK(check(problem, out).passed());
  for (const float bad : {-1e30f, 0.0f, kInfinity, kNaN}) {
    out.lse[1] = bad;
    const CheckResult result = check(problem, out);
    CHECK_FALSE(result.passed());
    CHECK(result.lse.nonfinite == (std::isnan(bad) ? 1 : 0));  // an infinity is expected there
  }
  out = right_answer(problem);
  out.o[3] = kNaN;  // 0/0 in a row that sees no key
  CHECK_FALSE(check(problem, out).passed());
}

TEST_CASE("a log-sum-exp that sums P as rounded passes, one that lost a key does not") {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const Problem problem = random_problem({1, 1, 40, 300, 64}, dtype, 6, 0.1);  // flat rows
    const Output right = right_answer(problem);
    Output rounded = right, lost = right;
    for (int64_t row = 0; row < problem.shape.q; ++row) {
      std::vector<double> s(problem.shape.kv);
      for (int64_t j = 0; j < problem.shape.kv; ++j) {
        for (int64_t d = 0; d < 64; ++d) {
          s[j] += problem.scale * problem.q[row * 64 + d] * problem.k[j * 64 + d];
        }
      }
      const double m = *std::max_element(s.begin(), s.end());
      double sum = 0, sum_rounded = 0;
      for (const double score : s) {
        sum += std::exp(score - m);
        sum_rounded += round_to(dtype, static_cast<float>(std::exp(score - m)));
      }
      rounded.lse[row] = static_cast<float>(m + std::log(sum_rounded));
      lost.lse[row] = static_cast<float>(m + std::log(sum - std::exp(s[7] - m)));
    }
    CHECK(check(problem, rounded).passed());
    const CheckResult result = check(problem, lost);
    CHECK(result.lse.mismatches > 0);
    CHECK_FALSE(result.passed());
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      Output out = right;
      out.lse[39] = bad;
      CHECK_FALSE(check(problem, out).passed());
    }
  }
}

TEST_CASE("one of 300 equal keys may not be missing from the log-sum-exp") {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    Problem problem = random_problem({1, 1, 4, 300, 64}, dtype, 8);
    std::fill(problem.q.begin(), problem.q.end(), 0.5f);
    std::fill(problem.k.begin(), problem.k.end(), 0.5f);  // a score of 2, exact in every type
    Output out = right_answer(problem);
    CHECK(check(problem, out).passed());
    out.lse[3] = 2 + std::log(299.0f);
    const CheckResult result = check(problem, out);
    CHECK(result.lse.first_bad == 3);
    CHECK_FALSE(result.passed());
  }
}

TEST_CASE("large problems are sampled, but a NaN in a row that was not sampled still fails") {
  const Problem problem = random_problem({1, 1, 20000, 8192, 16}, Dtype::bf16, 5);
  std::vector<float> o(problem.shape.q_elements(), 0.5f);
  for (const int64_t row : {int64_t{1}, int64_t{777}, int64_t{19998}}) {
    o[row * problem.shape.dim + 3] = kNaN;
  }
  const CheckResult result = check_output(problem, o, {});
  CHECK(result.rows_checked < problem.shape.rows());
  CHECK(result.rows_checked > 1000);
  CHECK(result.o.nonfinite == 3);
  CHECK(std::isnan(result.o.max_abs_error));
  CHECK_FALSE(result.passed());
}

TEST_CASE("the float64 reference is softmax") {
  Problem problem = random_problem({1, 1, 1, 6, 1}, Dtype::f32, 0);
  problem.q = {1};
  problem.k = {1, 2, 3, 4, 5, 6};
  problem.v = problem.k;
  problem.scale = 1;
  std::vector<double> o(1);
  const RowFacts facts = reference_row(problem, 0, 0, o);
  CHECK(o[0] == doctest::Approx(5.4329).epsilon(1e-5));
  CHECK(facts.lse == doctest::Approx(6 + std::log(1.5774)).epsilon(1e-4));
  CHECK(facts.largest_score == 6);
}

TEST_CASE("the memory probe counts exactly, and enforces its limit") {
  MemoryProbe probe(10000);
  {
    counted_vector<double> a(100);
    CHECK(probe.current_bytes() == 800);
    {
      counted_vector<float> b(1000);
      CHECK(probe.peak_bytes() == 4800);
    }
    CHECK(probe.current_bytes() == 800);
    CHECK_THROWS_AS(counted_vector<char>(9201), MemoryLimitExceeded);
    counted_vector<char> fits(9200);
  }
  CHECK(probe.current_bytes() == 0);
  CHECK(probe.peak_bytes() == 10000);
  CHECK(format_bytes(1536) == "1.50 KiB");
}

TEST_CASE("memory: the machine's, or what a cgroup leaves of it") {
  const std::string root = FA_BINARY_DIR "/test_memory_root";
  const auto write = [&](const std::string& path, const std::string& text) {
    const std::filesystem::path file = root + path;
    std::filesystem::create_directories(file.parent_path());
    write_file(file, text);
  };
  std::filesystem::remove_all(root);
  const double machine = memory_bytes(root);  // no cgroups: macOS or an old kernel
  CHECK(machine > 1e8);
  CHECK(memory_bytes() <= machine);

  write("/proc/self/cgroup", "0::/user.slice/a/b\n");  // version 2: the limits of all parents apply
  CHECK(memory_bytes(root) == machine);
  write("/sys/fs/cgroup/user.slice/a/b/memory.max", "max\n");
  CHECK(memory_bytes(root) == machine);
  write("/sys/fs/cgroup/user.slice/a/memory.max", "50000000\n");
  CHECK(memory_bytes(root) == 5e7);
  write("/sys/fs/cgroup/user.slice/a/b/memory.max", "60000000\n");
  CHECK(memory_bytes(root) == 5e7);
  write("/sys/fs/cgroup/memory.max", "40000000\n");  // a container's own cgroup is its root
  CHECK(memory_bytes(root) == 4e7);
  write("/proc/self/cgroup", "0::/\n");
  CHECK(memory_bytes(root) == 4e7);

  std::filesystem::remove_all(root);
  write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");  // version 1
  CHECK(memory_bytes(root) == machine);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  CHECK(memory_bytes(root) == machine);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "70000000\n");
  CHECK(memory_bytes(root) == 7e7);
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "30000000\n");
  CHECK(memory_bytes(root) == 3e7);
}

TEST_CASE("parallel_for does every index once and rethrows") {
  for (const int threads : {1, 2, 7}) {
    std::vector<int> seen(1000);
    parallel_for(1000, threads, [&](int64_t i, int thread) {
      REQUIRE(thread < threads);
      ++seen[i];
    });
    CHECK(seen == std::vector<int>(1000, 1));
    CHECK_THROWS_AS(parallel_for(100, threads,
                                 [](int64_t i, int) {
                                   if (i == 50) throw std::runtime_error("x");
                                 }),
                    std::runtime_error);
  }
  parallel_for(0, 2, [](int64_t, int) { FAIL("no work"); });
}

TEST_CASE(
    "parallel_for nested and from several threads: each index once, no number twice at once") {
  constexpr int kCallers = 4, kThreads = 3, kOuter = 8, kInner = 50;
  std::atomic<int> sum = 0, clashes = 0, caught = 0;
  const auto nested = [&] {
    for (int round = 0; round < 20; ++round) {
      std::atomic<bool> busy[kThreads] = {};
      parallel_for(kOuter, kThreads, [&](int64_t, int thread) {
        clashes += busy[thread].exchange(true);
        std::atomic<bool> inner_busy[kThreads] = {};
        parallel_for(kInner, kThreads, [&](int64_t, int inner) {
          clashes += inner_busy[inner].exchange(true);
          ++sum;
          inner_busy[inner] = false;
        });
        try {
          parallel_for(kInner, kThreads, [](int64_t i, int) {
            if (i == 20) throw std::runtime_error("inner");
          });
        } catch (const std::runtime_error&) {
          ++caught;
        }
        busy[thread] = false;
      });
    }
  };
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kCallers; ++i) callers.emplace_back(nested);
  }
  CHECK(sum == kCallers * 20 * kOuter * kInner);
  CHECK(caught == kCallers * 20 * kOuter);
  CHECK(clashes == 0);
}
