#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "exercises/support/trace.hpp"

using exercise::Numbers;

// Softmax with the sum made by `next(s, x, old maximum, new maximum)`, in fp32 like the machine.
template <class Next>
static Numbers softmax(const std::vector<float>& x, Next next) {
  float m = x[0], s = 1;
  for (size_t i = 1; i < x.size(); ++i) {
    const float m_new = std::max(m, x[i]);
    s = next(s, x[i], m, m_new);
    m = m_new;
  }
  Numbers out;
  for (const float value : x) out.push_back(std::exp(value - m) / s);
  return out;
}

static float e(float x) { return std::exp(x); }

static void check_softmax(const std::vector<float>& x) {
  using F = float;
  exercise::check_output(
      {"out"}, exercise::answer().output({{"x", x}}),
      softmax(x, [](F s, F x, F m, F m_new) { return s * e(m - m_new) + e(x - m_new); }),
      {{"old-maximum-lost", softmax(x, [](F s, F x, F, F m_new) { return s + e(x - m_new); }),
        "s stays as it was when the maximum grows: the factor came out as e^0 = 1. Was the old "
        "maximum "
        "still there when you computed m - m'?"},
       {"rescale-on-new-term",
        softmax(x, [](F s, F x, F m, F m_new) { return s + e(m - m_new) * e(x - m_new); }),
        "the factor e^(m - m') is on the new term; that one is relative to m' already, the old sum "
        "needs it"},
       {"factor-upside-down",
        softmax(x, [](F s, F x, F m, F m_new) { return s * e(m_new - m) + e(x - m_new); }),
        "the old sum was multiplied by e^(m' - m); it must shrink when the maximum grows: e^(m - "
        "m')"},
       {"exponent-with-old-maximum",
        softmax(x, [](F s, F x, F m, F m_new) { return s * e(m - m_new) + e(x - m); }),
        "the new term is e^(x - m) with the old maximum; take the new one, or it overflows"}});
}

TEST_CASE("the maximum grows each time") { check_softmax({1, 2, 3}); }
TEST_CASE("the maximum comes first") { check_softmax({3, 1, 2}); }
TEST_CASE("the maximum is in the middle") { check_softmax({-1, 2, 0.5f}); }
TEST_CASE("no exponential overflows") { check_softmax({100, 150, 149}); }
TEST_CASE("as few cycles as can be") { exercise::answer().check_cycles(38); }
