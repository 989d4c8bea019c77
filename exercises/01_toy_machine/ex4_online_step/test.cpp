#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "exercises/support/trace.hpp"

using exercise::Numbers;

// Maximum and sum so far.
struct State {
  float m, s;
};

// Softmax with the state made by `next(state, x)`, in fp32 like the machine.
template <class Next>
static Numbers softmax(const std::vector<float>& x, Next next) {
  State state = {x[0], 1};
  for (size_t i = 1; i < x.size(); ++i) state = next(state, x[i]);
  Numbers out;
  for (const float value : x) out.push_back(std::exp(value - state.m) / state.s);
  return out;
}

// The answer, if the machine takes it.
static std::optional<exercise::Trace> accepted_answer() {
  std::optional<exercise::Trace> trace;
  std::string why;
  bool nothing_to_subtract_from = false;
  try {
    trace = exercise::answer();
  } catch (const exercise::Refused& refused) {
    why = refused.what();
    nothing_to_subtract_from = refused.empty(ch01::Op::kSub, 0);
  }
  exercise::check(trace.has_value(), why,
                  {{"old-maximum-not-kept", nothing_to_subtract_from,
                    "SUB finds nothing to subtract from: the old maximum was never copied, and MAX "
                    "overwrites it; MOV R1, R3 comes first"}});
  return trace;
}

static float e(float x) { return std::exp(x); }

static void check_softmax(const std::vector<float>& x) {
  using F = float;
  // The new maximum is right, as sum(s, x, old maximum, new maximum).
  const auto with = [&](const std::vector<float>& all, auto sum) {
    return softmax(all, [&](State state, F value) {
      const F m = std::max(state.m, value);
      return State{m, sum(state.s, value, state.m, m)};
    });
  };
  const auto right = [](F s, F x, F m, F m_new) { return s * e(m - m_new) + e(x - m_new); };
  // x1 twice, x2 never, so that x2 is still divided by a sum that does not know it.
  State twice = {x[0], 1};
  for (int i = 0; i < 2; ++i) {
    const F m = std::max(twice.m, x[1]);
    twice = {m, right(twice.s, x[1], twice.m, m)};
  }
  const std::optional<exercise::Trace> trace = accepted_answer();
  if (!trace) return;
  Numbers same_x;
  for (const F value : x) same_x.push_back(e(value - twice.m) / twice.s);
  exercise::check_output(
      {"out"}, trace->output({{"x", x}}), with(x, right),
      {{"old-maximum-lost", with(x, [](F s, F x, F, F m_new) { return s + e(x - m_new); }),
        "s stays as it was when the maximum grows: the factor came out as e^0 = 1, or s was not "
        "multiplied by it. Was the old maximum still there when you computed m - m'?"},
       {"rescale-on-new-term",
        with(x, [](F s, F x, F m, F m_new) { return s + e(m - m_new) * e(x - m_new); }),
        "the factor e^(m - m') is on the new term, which is relative to m' already. The old sum "
        "needs it"},
       {"factor-on-both",
        with(x, [](F s, F x, F m, F m_new) { return (s + e(x - m_new)) * e(m - m_new); }),
        "the new term was added before the product, so the factor is on both. The new term is "
        "relative to m' already: MUL, then ADD"},
       {"factor-upside-down",
        with(x, [](F s, F x, F m, F m_new) { return s * e(m_new - m) + e(x - m_new); }),
        "the old sum was multiplied by e^(m' - m). It must shrink when the maximum grows: e^(m - "
        "m')"},
       {"term-upside-down",
        with(x, [](F s, F x, F m, F m_new) { return s * e(m - m_new) + e(m_new - x); }),
        "the new term is e^(m' - x). It should be e^(x - m')"},
       {"exponential-forgotten",
        with(x, [](F s, F x, F m, F m_new) { return s * (m - m_new) + e(x - m_new); }),
        "the factor is m - m' itself. It needs an EXP"},
       {"exponential-forgotten",
        with(x, [](F s, F x, F m, F m_new) { return s * e(m - m_new) + (x - m_new); }),
        "the new term is x - m' itself. It needs an EXP"},
       {"term-forgotten", with(x, [](F s, F, F m, F m_new) { return s * e(m - m_new); }),
        "s was rescaled, and the new term never added"},
       {"maximum-not-taken",
        softmax(x,
                [](State state, F x) {
                  return State{state.m, state.s + e(x - state.m)};
                }),
        "m stays x0, because MAX is missing, so that an x far above it overflows"},
       {"maximum-replaced",
        softmax(x,
                [](State state, F x) {
                  return State{x, state.s * e(state.m - x) + 1};
                }),
        "m became x, whether that is larger or not: MAX and not MOV"},
       {"same-x-twice", same_x, "both steps take x[1]. The second takes x[2]"},
       {"exponent-with-old-maximum",
        with(x, [](F s, F x, F m, F m_new) { return s * e(m - m_new) + e(x - m); }),
        "the new term is e^(x - m) with the old maximum. Take the new one, or it overflows"}});
}

TEST_CASE("the maximum grows each time") { check_softmax({1, 2, 3}); }
TEST_CASE("the maximum comes first") { check_softmax({3, 1, 2}); }
TEST_CASE("the maximum is in the middle") { check_softmax({-1, 2, 0.5f}); }
TEST_CASE("no exponential overflows") { check_softmax({100, 200, 199}); }
TEST_CASE("the maximum falls by a hundred") { check_softmax({200, 100, 199}); }
TEST_CASE("as few cycles as can be") {
  if (const auto trace = accepted_answer()) trace->check_cycles(38);
}
