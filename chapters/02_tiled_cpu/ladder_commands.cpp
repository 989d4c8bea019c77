// The subcommand ladder takes one query from the definition to one pass.

#include <cmath>
#include <iostream>
#include <vector>

#include "commands.hpp"
#include "common/error.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"
#include "counted.hpp"
#include "ladder.hpp"

namespace ch02 {
namespace {

template <class Real>
using SoftmaxOf = Real (*)(std::span<const Real>, std::span<Real>);

// Runs one of the six algorithms on scores x and values v [n, d], into o [d].
template <class Real>
struct Rung {
  const char* name;
  int passes;  // over x (or over K)
  std::function<void(std::span<const Real> x, fa::View<const Real> v, std::span<Real> o)> attend;
};

template <class Real>
std::vector<Rung<Real>> rungs() {
  const auto with_weights = [](SoftmaxOf<Real> softmax) {
    return [softmax](std::span<const Real> x, fa::View<const Real> v, std::span<Real> o) {
      std::vector<Real> a(x.size());
      softmax(x, a);
      weighted_sum<Real>(a, v, o);
    };
  };
  return {
      {"native", 2, with_weights(native_softmax<Real>)},
      {"safe", 3, with_weights(safe_softmax<Real>)},
      {"online", 2, with_weights(online_softmax<Real>)},
      {"two-pass", 2,
       [](auto x, auto v, auto o) { two_pass([=](int64_t j) { return x[j]; }, v, o); }},
      {"one-pass-normalised", 1,
       [](auto x, auto v, auto o) { one_pass_normalised([=](int64_t j) { return x[j]; }, v, o); }},
      {"one-pass", 1,
       [](auto x, auto v, auto o) { one_pass([=](int64_t j) { return x[j]; }, v, o); }},
  };
}

void print_operations(int64_t keys, int64_t dim) {
  const std::vector<Counted> x(keys, 1.0), v(keys * dim, 1.0);
  std::vector<Counted> o(dim);
  std::cout << text("\nOperations for one query, %lld keys, d = %lld:\n", (long long)keys,
                    (long long)dim)
            << text("%-20s %10s %10s %10s %10s\n", "", "adds", "multiplies", "divides", "exps");
  for (const Rung<Counted>& rung : rungs<Counted>()) {
    Counted::done = {};
    rung.attend(x, {v.data(), keys, dim}, o);
    const Operations done = Counted::done;
    std::cout << text("%-20s %10lld %10lld %10lld %10lld\n", rung.name, (long long)done.adds,
                      (long long)done.multiplies, (long long)done.divides, (long long)done.exps);
  }
}

void print_times(int64_t keys, int64_t dim) {
  std::vector<float> x(keys), v(keys * dim), o(dim);
  for (int64_t j = 0; j < keys; ++j) x[j] = std::sin(static_cast<float>(j));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::cos(static_cast<float>(i));
  std::cout << text("\nMicroseconds for one query, %lld keys, d = %lld, one thread:\n",
                    (long long)keys, (long long)dim);
  for (const Rung<float>& rung : rungs<float>()) {
    const double ms = fa::median_ms(41, [&] { rung.attend(x, {v.data(), keys, dim}, o); });
    std::cout << text("%-20s %10.1f\n", rung.name, 1000 * ms);
  }
}

}  // namespace

int ladder_command() {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const fa::View<const float> v{x.data(), 6, 1};
  bool agrees = true;
  std::cout << "x = v = 1 2 3 4 5 6\nsoftmax(x) =";
  std::vector<float> a(6);
  online_softmax<float>(x, a);
  for (const float weight : a) std::cout << text(" %.4f", weight);
  std::cout << text("\n\n%-20s %6s %8s\n", "", "passes", "o");
  for (const Rung<float>& rung : rungs<float>()) {
    float o = 0;
    rung.attend(x, v, {&o, 1});
    agrees = agrees && std::abs(o - 5.4329f) < 5e-5f;
    std::cout << text("%-20s %6d %8.4f\n", rung.name, rung.passes, o);
  }
  print_operations(1024, 64);
  if (!fa::times_hidden()) print_times(1024, 64);
  return agrees ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace ch02
