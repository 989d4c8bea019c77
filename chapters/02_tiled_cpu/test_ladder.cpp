// The six algorithms on one query, and the attention state.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "counted.hpp"
#include "ladder.hpp"

using namespace ch02;

namespace {

using Vector = std::vector<double>;

struct Row {
  Vector x, v;  // v is [n, dim]
  int64_t dim;
  fa::View<const double> values() const { return {v.data(), static_cast<int64_t>(x.size()), dim}; }
};

Row random_row(int64_t keys, int64_t dim, double spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Row row{Vector(keys), Vector(keys * dim), dim};
  for (double& x : row.x) x = spread * normal(random);
  for (double& v : row.v) v = normal(random);
  return row;
}

// The definition of attention, computed in long double.
Vector expected(const Row& row) {
  const double m = *std::max_element(row.x.begin(), row.x.end());
  long double l = 0;
  std::vector<long double> o(row.dim);
  for (size_t j = 0; j < row.x.size(); ++j) {
    const long double p = std::exp(static_cast<long double>(row.x[j] - m));
    l += p;
    for (int64_t d = 0; d < row.dim; ++d) o[d] += p * row.v[j * row.dim + d];
  }
  Vector result(row.dim);
  for (int64_t d = 0; d < row.dim; ++d) result[d] = static_cast<double>(o[d] / l);
  return result;
}

template <class Real>
using SoftmaxOf = Real (*)(std::span<const Real>, std::span<Real>);

const struct {
  const char* name;
  SoftmaxOf<double> softmax;
} kSoftmaxes[] = {{"native", native_softmax<double>},
                  {"safe", safe_softmax<double>},
                  {"online", online_softmax<double>}};

// Runs all six algorithms on one row and returns o and log Σ eˣ of each.
std::vector<std::pair<std::string, std::pair<Vector, double>>> all_rungs(const Row& row) {
  std::vector<std::pair<std::string, std::pair<Vector, double>>> results;
  for (const auto& [name, softmax] : kSoftmaxes) {
    Vector a(row.x.size()), o(row.dim);
    const double lse = softmax(row.x, a);
    weighted_sum<double>(a, row.values(), o);
    results.push_back({name, {o, lse}});
  }
  const auto score = [&](int64_t j) { return row.x[j]; };
  Vector o(row.dim, std::nan(""));
  double lse = two_pass(score, row.values(), std::span(o));
  results.push_back({"two-pass", {o, lse}});
  lse = one_pass_normalised(score, row.values(), std::span(o));
  results.push_back({"one-pass-normalised", {o, lse}});
  lse = one_pass(score, row.values(), std::span(o));
  results.push_back({"one-pass", {o, lse}});
  return results;
}

}  // namespace

TEST_CASE("1 to 6: softmax 0.0043 ... 0.6337, output 5.4329, from every rung") {
  const Row row{{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, 1};
  const double weights[] = {0.0043, 0.0116, 0.0315, 0.0858, 0.2331, 0.6337};
  for (const auto& [name, softmax] : kSoftmaxes) {
    const std::string rung = name;
    CAPTURE(rung);
    Vector a(6);
    softmax(row.x, a);
    for (int j = 0; j < 6; ++j) CHECK(std::abs(a[j] - weights[j]) < 5e-5);
  }
  for (const auto& [name, result] : all_rungs(row)) {
    const std::string rung = name;
    CAPTURE(rung);
    CHECK(std::abs(result.first[0] - 5.4329) < 5e-5);
    CHECK(std::abs(result.second - 6.456193316018) < 1e-12);  // 6 + log Σ e^(x − 6)
  }
}

TEST_CASE("every rung agrees on random rows of any length") {
  for (const int64_t keys : {1, 2, 3, 17, 256}) {
    for (const double spread : {0.1, 1.0, 30.0}) {
      const Row row = random_row(keys, 5, spread, keys);
      const Vector want = expected(row);
      for (const auto& [name, result] : all_rungs(row)) {
        const std::string rung = name;
        CAPTURE(rung);
        CAPTURE(keys);
        CAPTURE(spread);
        for (int64_t d = 0; d < row.dim; ++d) CHECK(std::abs(result.first[d] - want[d]) < 1e-12);
      }
    }
  }
}

TEST_CASE("only native overflows") {
  Row row = random_row(40, 3, 1, 1);
  for (double& x : row.x) x += 2000;  // e^2000 overflows even float64
  const Vector want = expected(row);
  for (const auto& [name, result] : all_rungs(row)) {
    const std::string rung = name;
    CAPTURE(rung);
    if (name == "native") {
      CHECK(std::isnan(result.first[0]));
    } else {
      CHECK(std::abs(result.first[0] - want[0]) < 1e-11);
    }
  }
}

TEST_CASE("hidden keys weigh nothing, at the beginning, in the middle, at the end") {
  Row row = random_row(30, 4, 1, 2), visible{{}, {}, 4};
  for (int j = 0; j < 30; ++j) {
    if (j < 3 || j % 4 == 0 || j == 29) {
      row.x[j] = -kInfinity<double>;
    } else {
      visible.x.push_back(row.x[j]);
      visible.v.insert(visible.v.end(), row.v.begin() + 4 * j, row.v.begin() + 4 * j + 4);
    }
  }
  const Vector want = expected(visible);
  for (const auto& [name, result] : all_rungs(row)) {
    const std::string rung = name;
    CAPTURE(rung);
    for (int d = 0; d < 4; ++d) CHECK(std::abs(result.first[d] - want[d]) < 1e-12);
  }
}

TEST_CASE("a query that sees no key: 0 and -inf") {
  const Row row{Vector(5, -kInfinity<double>), Vector(10, 1.0), 2};
  const auto score = [&](int64_t j) { return row.x[j]; };
  Vector o(2, std::nan(""));
  CHECK(two_pass(score, row.values(), std::span(o)) == -kInfinity<double>);
  CHECK(o == Vector{0, 0});
  o.assign(2, std::nan(""));
  CHECK(one_pass(score, row.values(), std::span(o)) == -kInfinity<double>);
  CHECK(o == Vector{0, 0});
  o.assign(2, std::nan(""));
  CHECK(one_pass_normalised(score, row.values(), std::span(o)) == -kInfinity<double>);
  CHECK(o == Vector{0, 0});
}

TEST_CASE("divisions: two a key when o stays normalised, one a column when it does not") {
  constexpr int64_t kKeys = 100, kDim = 8;
  const std::vector<Counted> x(kKeys, 1.0), v(kKeys * kDim, 1.0);
  std::vector<Counted> o(kDim);
  const fa::View<const Counted> values{v.data(), kKeys, kDim};
  const auto score = [&](int64_t j) { return x[j]; };
  Counted::done = {};
  one_pass_normalised(score, values, std::span(o));
  CHECK(Counted::done.divides == 2 * kKeys);
  CHECK(o[0].value == doctest::Approx(1));
  Counted::done = {};
  one_pass(score, values, std::span(o));
  CHECK(Counted::done.divides == kDim);
  CHECK(o[0].value == doctest::Approx(1));
  std::vector<Counted> a(kKeys);
  Counted::done = {};
  safe_softmax<Counted>(x, a);
  CHECK(Counted::done.divides == kKeys);
  CHECK(Counted::done.exps == 2 * kKeys);
}

// ---- The state ----

namespace {

using State = AttentionState<double>;

State leaf(const Row& row, int64_t j) {
  return State(row.x[j], std::span(row.v).subspan(j * row.dim, row.dim));
}

void check_equal(const State& a, const State& b, double bound) {
  CHECK(a.m == b.m);
  CHECK(std::abs(a.l - b.l) <= bound * std::abs(b.l));
  for (size_t d = 0; d < a.o.size(); ++d) CHECK(std::abs(a.o[d] - b.o[d]) <= bound * (1 + b.l));
}

}  // namespace

TEST_CASE("merge: the empty state is the identity, exactly, on both sides") {
  const Row row = random_row(3, 4, 1, 3);
  const State empty(4), one = leaf(row, 0);
  for (const State& merged : {merge(empty, one), merge(one, empty)}) {
    CHECK(merged.m == one.m);
    CHECK(merged.l == one.l);
    CHECK(merged.o == one.o);
  }
  const State nothing = merge(empty, empty);  // −inf − (−inf) must not become NaN
  CHECK(nothing.m == -kInfinity<double>);
  CHECK(nothing.l == 0);
  CHECK(nothing.o == Vector(4, 0.0));
  const State hidden(-kInfinity<double>, std::span(row.v).first(4));
  CHECK(merge(hidden, one).o == one.o);
}

TEST_CASE("merge is commutative and associative") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Row row = random_row(3, 3, seed % 2 ? 1 : 50, seed);
    const State a = leaf(row, 0), b = leaf(row, 1), c = leaf(row, 2);
    check_equal(merge(a, b), merge(b, a), 0);
    check_equal(merge(merge(a, b), c), merge(a, merge(b, c)), 1e-14);
  }
}

TEST_CASE("any split, in any order, in any grouping, gives softmax(x) @ v") {
  std::mt19937_64 random(7);
  for (uint64_t round = 0; round < 300; ++round) {
    const int64_t keys = 1 + static_cast<int64_t>(random() % 60);
    Row row = random_row(keys, 1 + static_cast<int64_t>(random() % 6), round % 3 ? 2 : 100, round);
    for (double& x : row.x) x += round % 5 ? 0 : -1000;  // all scores far below 0
    const Vector want = expected(row);
    for (int64_t hidden = 0; hidden < keys / 4; ++hidden) {  // identities at any position
      row.x.push_back(-kInfinity<double>);
      row.v.insert(row.v.end(), row.dim, 99.0);
    }
    std::vector<State> states;
    for (size_t j = 0; j < row.x.size(); ++j) states.push_back(leaf(row, static_cast<int64_t>(j)));
    while (states.size() > 1) {  // merge any two, in any order, until one is left
      std::swap(states[random() % states.size()], states.back());
      const State last = states.back();
      states.pop_back();
      State& other = states[random() % states.size()];
      other = random() % 2 ? merge(other, last) : merge(last, other);
    }
    CAPTURE(round);
    CAPTURE(keys);
    const State& all = states.front();
    CHECK(all.m == *std::max_element(row.x.begin(), row.x.end()));
    for (int64_t d = 0; d < row.dim; ++d) CHECK(std::abs(all.o[d] / all.l - want[d]) < 1e-12);
  }
}

TEST_CASE("merge in fp32 stays within rounding of float64") {
  std::mt19937_64 random(8);
  for (uint64_t round = 0; round < 100; ++round) {
    Row row = random_row(50, 4, 3, round);
    for (double& x : row.x) x = static_cast<float>(x);
    for (double& v : row.v) v = static_cast<float>(v);
    const Vector want = expected(row);
    AttentionState<float> all(row.dim);
    for (size_t j = 0; j < row.x.size(); ++j) {
      const std::vector<float> v(row.v.begin() + j * row.dim, row.v.begin() + (j + 1) * row.dim);
      const AttentionState<float> one(static_cast<float>(row.x[j]), v);
      all = random() % 2 ? merge(all, one) : merge(one, all);
    }
    for (int64_t d = 0; d < row.dim; ++d) CHECK(std::abs(all.o[d] / all.l - want[d]) < 2e-6);
  }
}
