#include <doctest/doctest.h>

#include <cmath>
#include <find_it.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

// The stub's: a learner may have changed them.
constexpr double RIGHT_STEP = 1e-4, RIGHT_TOLERANCE = 1e-6;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Finding find_wrong(Program& program) const {
    Finding found;
    double worst = is("always-finds") ? -1 : RIGHT_TOLERANCE;
    const double h = is.number("step", RIGHT_STEP);
    const int tensors = is("first-tensor-only") ? 1 : static_cast<int>(program.tensors.size());
    for (int tensor = 0; tensor < tensors; ++tensor) {
      for (int i = 0; i < static_cast<int>(program.tensors[tensor].size()); ++i) {
        double& x = program.tensors[tensor][i];
        const double kept = x, here = program.loss(program.tensors);
        x += h;
        const double above = program.loss(program.tensors);
        if (is("put-back-by-adding") || is("back-not"))
          x -= 2 * h;
        else
          x = kept - h;
        const double below = program.loss(program.tensors);
        if (is("put-back-by-adding")) x += h;
        if (!is.any("stays", "put-back-by-adding", "back-not")) x = kept;
        const double slope = is("one-sided-difference") ? (above - here) / h
                             : is("divided-by-h")       ? (above - below) / h
                             : is("tensor-not-changed") ? 0
                                                        : (above - below) / (2 * h);
        double error = program.gradients[tensor][i] - slope;
        if (!is("sign-kept")) error = std::abs(error);
        if (is("relative-error")) error /= std::abs(slope);
        if (std::isnan(error) && !is("nan-passes") && !is("nan-remembered-as-worst"))
          return {tensor, i};
        if (is("nan-remembered-as-worst") ? !(error <= worst) : error > worst) {
          found = {tensor, i};
          if (is("first-not-farthest")) return found;
          if (!is("last-not-farthest")) worst = error;
        }
      }
    }
    return found;
  }
};

static const exercise::Table MISTAKES(R"(
one-sided-difference
  the difference is (L(x + h) - L(x)) / h. Its error is of the order of h, not of h * h, and right
  gradients fail
divided-by-h
  L(x + h) - L(x - h) was divided by h. The two are 2 h apart
tensor-not-changed
  every difference is 0: L was asked of tensors that had not changed. Was a copy of the number
  changed?
step-too-small: step={1e-10,1e-11,1e-12,1e-13,1e-14}
  h is so small that L(x + h) - L(x - h) has few digits left. Use STEP
step-too-large: step={0.1,0.01}
  h is so large that L is no straight line over 2 h. Use STEP
not-put-back: stays; back-not
  a number was changed and not put back, so that all later differences are of another L
put-back-by-adding
  a number was put back by + h. x + h - 2 h + h has not always the bits of x: keep a copy
first-not-farthest
  the first wrong element is found. The farthest is asked for
last-not-farthest
  the last wrong element is found. The farthest is asked for: remember how far it was off
sign-kept
  gradients that are too small are not found: take the absolute value
relative-error
  the error was divided by the difference. An element near 0 wins that is hardly off
nan-passes
  a NaN is not found: error > worst is false for it. !(error <= worst) is true
nan-remembered-as-worst
  the worst error became NaN, and every later element counts as farther. Return when the NaN is
  found
first-tensor-only
  only tensor 0 was looked at
always-finds
  an element is found even if none is farther off than TOLERANCE: return {-1, -1}
)");

constexpr int QUERIES = 3, KEYS = 4, DIM = 2;
constexpr double SCALE = 0.7;

static Tensors attention(const Tensors& t, const std::vector<double>& dO, double& loss,
                         const std::string& mistake = "") {
  Tensors gradients = {std::vector<double>(QUERIES * DIM), std::vector<double>(KEYS * DIM),
                       std::vector<double>(KEYS * DIM)};
  const auto dot = [](const std::vector<double>& a, int i, const std::vector<double>& b, int j) {
    return a[i * DIM] * b[j * DIM] + a[i * DIM + 1] * b[j * DIM + 1];
  };
  loss = 0;
  for (int i = 0; i < QUERIES; ++i) {
    const int end = i + KEYS - QUERIES + 1;  // causal
    double l = 0, D = 0;
    for (int j = 0; j < end; ++j) l += std::exp(SCALE * dot(t[0], i, t[1], j));
    for (int j = 0; j < end; ++j)
      D += std::exp(SCALE * dot(t[0], i, t[1], j)) / l * dot(dO, i, t[2], j);
    loss += D;
    for (int j = 0; j < (mistake == "unmasked" ? KEYS : end); ++j) {
      const double P = std::exp(SCALE * dot(t[0], i, t[1], j)) / l;
      const double dS = P * (dot(dO, i, t[2], j) - (mistake == "no-d" ? 0 : D));
      for (int d = 0; d < DIM; ++d) {
        gradients[0][i * DIM + d] += SCALE * dS * t[1][j * DIM + d];
        gradients[1][j * DIM + d] += (mistake == "no-scale" ? 1 : SCALE) * dS * t[0][i * DIM + d];
        gradients[2][j * DIM + d] += P * dO[i * DIM + d];
      }
    }
  }
  return gradients;
}

static Program program_with(const std::string& mistake = "") {
  const auto random = [](int rows, int seed) {
    const std::vector<float> from = exercise::random_numbers(rows * DIM, seed);
    std::vector<double> all;
    for (const float one : from) all.push_back(one + 0.1);
    return all;
  };
  Program program;
  program.tensors = {random(QUERIES, 1), random(KEYS, 2), random(KEYS, 3)};
  const std::vector<double> dO = random(QUERIES, 4);
  double loss = 0;
  program.gradients = attention(program.tensors, dO, loss, mistake);
  program.loss = [dO](const Tensors& tensors) {
    double loss = 0;
    attention(tensors, dO, loss);
    return loss;
  };
  return program;
}

static std::string words(const Finding& found) {
  const char* const names[] = {"Q", "K", "V"};
  if (found.tensor == -1 && found.element == -1) return "nothing";
  const std::string element = "[" + std::to_string(found.element) + "]";
  if (found.tensor < 0 || found.tensor > 2)
    return "tensor " + std::to_string(found.tensor) + element;
  return std::string("d") + names[found.tensor] + element;
}

// Returns the finding, and which number has changed.
template <class Find>
static std::string shown(Program program, Find find) {
  const Tensors before = program.tensors;
  std::string text = words(find(program));
  for (int tensor = 0; tensor < 3; ++tensor)
    for (size_t i = 0; i < before[tensor].size(); ++i)
      if (!(program.tensors[tensor][i] == before[tensor][i]))
        return text + "; afterwards " + "QKV"[tensor] + "[" + std::to_string(i) +
               "] is another number";
  return text;
}

static void check_found(const Program& program, const std::string& expected) {
  const auto looks = exercise::looks<Way>(MISTAKES, [&](const Way& way) {
    return shown(program, [&](Program& one) { return way.find_wrong(one); });
  });
  const std::string got = shown(program, [](Program& one) { return find_wrong(one); });
  exercise::check_shown(got == expected, "expected " + expected + ", got " + got, got, looks);
}

static std::string farthest(const Program& program) {
  return shown(program, [](Program& one) { return Way{}.find_wrong(one); });
}

static Program spoilt(int tensor, int element, double by) {
  Program program = program_with();
  program.gradients[tensor][element] += by;
  return program;
}

TEST_CASE("gradients that are right") { check_found(program_with(), "nothing"); }
TEST_CASE("one element of dQ is too large") { check_found(spoilt(0, 3, 0.01), "dQ[3]"); }
TEST_CASE("one element of dK is too small") { check_found(spoilt(1, 2, -0.01), "dK[2]"); }
TEST_CASE("the last element of dV is hardly off") { check_found(spoilt(2, 7, 1e-5), "dV[7]"); }
TEST_CASE("two are wrong, the second more") {
  Program program = spoilt(0, 2, 0.1);
  program.gradients[1][5] -= 0.3;
  check_found(program, "dK[5]");
  program.gradients[0][1] += 0.5;
  check_found(program, "dQ[1]");
}
TEST_CASE("the largest gradient is 0") {
  Program program = program_with();
  double* largest = &program.gradients[0][0];
  for (std::vector<double>& gradient : program.gradients)
    for (double& one : gradient)
      if (std::abs(one) > std::abs(*largest)) largest = &one;
  *largest = 0;
  check_found(program, farthest(program));
}
TEST_CASE("a NaN, and an element that is far off") {
  Program program = spoilt(0, 2, 100);
  program.gradients[2][1] = std::numeric_limits<double>::quiet_NaN();
  check_found(program, "dV[1]");
  program.gradients[1][6] = std::numeric_limits<double>::quiet_NaN();
  check_found(program, "dK[6]");
}
TEST_CASE("infinity") {
  check_found(spoilt(1, 4, std::numeric_limits<double>::infinity()), "dK[4]");
}
TEST_CASE("D forgotten") { check_found(program_with("no-d"), farthest(program_with("no-d"))); }
TEST_CASE("scale forgotten in dK") {
  const std::string expected = farthest(program_with("no-scale"));
  CHECK(expected.substr(0, 2) == "dK");
  check_found(program_with("no-scale"), expected);
}
TEST_CASE("the mask forgotten") {
  check_found(program_with("unmasked"), farthest(program_with("unmasked")));
}
