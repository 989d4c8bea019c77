// Compares the fast version with float64 on every instruction set that this machine has.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "common/check.hpp"
#include "common/error.hpp"
#include "common/memory.hpp"
#include "common/problem.hpp"
#include "common/reference.hpp"
#include "fast.hpp"
#include "peak.hpp"

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Output {
  std::vector<float> o, lse;

  bool same_bits(const Output& other) const {
    return o.size() == other.o.size() && lse.size() == other.lse.size() &&
           std::memcmp(o.data(), other.o.data(), o.size() * sizeof(float)) == 0 &&
           std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(float)) == 0;
  }
};

Output run(const fa::Problem& problem, int threads = 1) {
  const fa::Shape& shape = problem.shape;
  Output out{std::vector<float>(shape.q_elements(), kNaN), std::vector<float>(shape.rows(), kNaN)};
  ch02::fast_attention(problem.q.data(), problem.k.data(), problem.v.data(), out.o.data(),
                       out.lse.data(), shape, problem.scale, problem.causal, threads);
  return out;
}

void check(const fa::Problem& problem) {
  const Output out = run(problem);
  const fa::CheckResult result = fa::check_output(problem, out.o, out.lse);
  INFO(fa::to_string(problem.shape), problem.causal ? " causal: " : ": ",
       fa::describe(result, problem.shape));
  CHECK(result.passed());
}

fa::Problem make(const fa::Shape& shape, bool causal, uint64_t seed, double input_scale = 1) {
  fa::Problem problem = fa::random_problem(shape, fa::Dtype::f32, seed, input_scale);
  problem.causal = causal;
  return problem;
}

// Runs `test` with each instruction set.
template <class Test>
void on_every_target(Test&& test) {
  for (const std::string& name : ch02::fast_targets()) {
    CAPTURE(name);
    ch02::force_fast_target(name);
    CHECK(ch02::fast_target_name() == name);
    test();
    ch02::force_fast_target("");
  }
}

}  // namespace

TEST_CASE("every head dimension, with lengths that no block size divides") {
  on_every_target([] {
    for (const int64_t dim : {1, 5, 16, 64, 80, 128, 200, 256}) {
      check(make({1, 2, 61, 131, dim}, false, dim));
      check(make({2, 1, 61, 131, dim}, true, dim));
      check(make({1, 1, 131, 61, dim}, true, dim));  // the first 70 queries see no key
    }
  });
}

TEST_CASE("random ragged shapes") {
  std::mt19937 random(2);
  const auto up_to = [&](int64_t n) { return 1 + static_cast<int64_t>(random() % n); };
  on_every_target([&] {
    for (int i = 0; i < 60; ++i) {
      const fa::Shape shape{up_to(2), up_to(3), up_to(260), up_to(300), up_to(70)};
      check(make(shape, i % 2 == 1, i));
    }
  });
}

TEST_CASE("lengths around the panels and blocks, causal, all together") {
  on_every_target([] {
    for (const int64_t q : {1, 2, 47, 48, 49, 95, 192, 193})
      for (const int64_t kv : {1, 7, 8, 9, 127, 128, 129}) check(make({1, 1, q, kv, 3}, true, q));
  });
}

TEST_CASE("a long row") { check(make({1, 1, 5, 20000, 64}, false, 1)); }

TEST_CASE("scores that only a running maximum survives") {
  on_every_target([] {
    check(make({1, 1, 50, 300, 64}, false, 1, 30));  // score| up to several hundred
    check(make({1, 1, 50, 300, 64}, true, 2, -30));
    fa::Problem negative = make({1, 1, 50, 300, 4}, false, 3);  // all scores are about -4000
    for (float& x : negative.q) x = -100 - std::abs(x);
    for (float& x : negative.k) x = 20 + std::abs(x);
    check(negative);
  });
}

TEST_CASE("a scale that is negative or zero") {
  on_every_target([] {
    fa::Problem problem = make({1, 1, 50, 130, 16}, true, 4);
    problem.scale = -0.5;
    check(problem);
    problem.scale = 0;
    check(problem);
  });
}

TEST_CASE("queries that see no key get 0 and -inf, the others nothing of it") {
  on_every_target([] {
    const fa::Problem problem = make({1, 1, 100, 30, 8}, true, 5);
    const Output out = run(problem);
    for (int64_t i = 0; i < 100; ++i) {
      CHECK((out.lse[i] == -kInfinity) == (i < 70));
      for (int64_t d = 0; d < 8; ++d) CHECK((out.o[i * 8 + d] == 0) == (i < 70));
    }
  });
}

TEST_CASE("a NaN in an input reaches the rows that see it, and no other") {
  on_every_target([] {
    fa::Problem problem = make({1, 1, 60, 60, 8}, true, 6);
    problem.k[40 * 8 + 3] = kNaN;  // seen by queries 40 to 59
    const Output out = run(problem);
    for (int64_t i = 0; i < 60; ++i) CHECK(std::isnan(out.o[i * 8]) == (i >= 40));
  });
}

TEST_CASE("the same bits with any number of threads, and without lse") {
  const fa::Problem problem = make({1, 4, 1000, 1000, 64}, true, 7);  // enough work for 13 threads
  const Output one = run(problem, 1);
  for (const int threads : {2, 3, 16}) CHECK(one.same_bits(run(problem, threads)));
  std::vector<float> o(problem.shape.q_elements(), kNaN);
  ch02::fast_attention(problem.q.data(), problem.k.data(), problem.v.data(), o.data(), nullptr,
                       problem.shape, problem.scale, true, 2);
  CHECK(one.same_bits({o, one.lse}));
}

TEST_CASE("memory does not grow with the length, and stays under 1 MiB a thread") {
  on_every_target([] {
    for (const int64_t dim : {1, 64, 256}) {
      const int64_t bytes = ch02::fast_scratch_bytes(dim);
      CHECK(bytes < 1 << 20);
      for (const int64_t length : {300, 3000}) {
        const fa::Problem problem = make({1, 1, 1000, length, dim}, false, 8);
        std::vector<float> o(problem.shape.q_elements());
        const fa::MemoryProbe probe;
        ch02::fast_attention(problem.q.data(), problem.k.data(), problem.v.data(), o.data(),
                             nullptr, problem.shape, problem.scale, false, 2);
        const bool one_or_two = probe.peak_bytes() == bytes || probe.peak_bytes() == 2 * bytes;
        CHECK(one_or_two);
      }
    }
  });
}

TEST_CASE("exp2 is within 2.25 units in the last place of every normal result") {
  on_every_target([] {
    std::vector<float> x, y;
    for (uint32_t bits = 0; bits < 0x43000000; bits += 997) {  // magnitudes from 0 to 128
      x.push_back(-std::bit_cast<float>(bits));
      if (x.back() > -127) x.push_back(std::bit_cast<float>(bits));
    }
    y.resize(x.size());
    ch02::fast_exp2(x, y);
    double worst = 0;
    int64_t wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] < -126) {
        wrong += y[i] != 0;
        continue;
      }
      const double exact = std::exp2(static_cast<double>(x[i]));
      const double ulp = std::exp2(std::floor(std::log2(exact)) - 23);
      const double error = std::abs(y[i] - exact) / ulp;
      wrong += !(error <= 2.25);
      worst = fa::max_keeping_nan(error, worst);
    }
    CAPTURE(worst);
    CHECK(wrong == 0);
    CHECK(worst > 0.5);  // an error this small would mean that nothing was compared
  });
}

TEST_CASE("exp2 of what online softmax feeds it") {
  on_every_target([] {
    const float low = std::numeric_limits<float>::lowest();
    const std::vector<float> x = {0, -0.0f, -1, -126, -126.5f, -1e6f, low, -kInfinity, kNaN};
    std::vector<float> y(x.size());
    ch02::fast_exp2(x, y);
    const std::vector<float> expected = {1, 1, 0.5f, std::exp2(-126.0f), 0, 0, 0, 0};
    for (size_t i = 0; i < expected.size(); ++i) CHECK(y[i] == expected[i]);
    CHECK(std::isnan(y.back()));
  });
}

TEST_CASE("an unknown instruction set is refused, and the peaks are positive") {
  CHECK_THROWS_AS(ch02::force_fast_target("MMX"), fa::InputError);
  CHECK(ch02::measure_peak_gflops(1) > 0.1);
  CHECK(ch02::measure_copy_gbs(1) > 0.1);
}
