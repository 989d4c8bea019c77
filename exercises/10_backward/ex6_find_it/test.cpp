#include <doctest/doctest.h>

#include <cmath>
#include <find_it.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

// The stub's: a learner may have changed them.
constexpr double RIGHT_STEP = 1e-4, RIGHT_TOLERANCE = 1e-6;

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Difference { kCentral, kOneSided, kNotHalved, kNone } difference = kCentral;
  double step = RIGHT_STEP;
  enum Restored { kCopy, kNot, kByAdding, kNotBack } restored = kCopy;
  enum Compared {
    kWorst,
    kFirst,
    kLast,
    kSigned,
    kRelative,
    kNanPasses,
    kNanKept
  } compared = kWorst;
  bool only_first = false, never_nothing = false;

  Finding find_wrong(Program& program) const {
    Finding found;
    double worst = never_nothing ? -1 : RIGHT_TOLERANCE;
    const int tensors = only_first ? 1 : static_cast<int>(program.tensors.size());
    for (int tensor = 0; tensor < tensors; ++tensor) {
      for (int i = 0; i < static_cast<int>(program.tensors[tensor].size()); ++i) {
        double& x = program.tensors[tensor][i];
        const double kept = x, here = program.loss(program.tensors);
        x += step;
        const double above = program.loss(program.tensors);
        if (restored == kByAdding || restored == kNotBack)
          x -= 2 * step;
        else
          x = kept - step;
        const double below = program.loss(program.tensors);
        if (restored == kByAdding) x += step;
        if (restored == kCopy) x = kept;
        const double slope = difference == kOneSided    ? (above - here) / step
                             : difference == kNotHalved ? (above - below) / step
                             : difference == kNone      ? 0
                                                        : (above - below) / (2 * step);
        double error = program.gradients[tensor][i] - slope;
        if (compared != kSigned) error = std::abs(error);
        if (compared == kRelative) error /= std::abs(slope);
        if (std::isnan(error) && compared != kNanPasses && compared != kNanKept) return {tensor, i};
        if (compared == kNanKept ? !(error <= worst) : error > worst) {
          found = {tensor, i};
          if (compared == kFirst) return found;
          if (compared != kLast) worst = error;
        }
      }
    }
    return found;
  }
};

using Wrong = exercise::Wrong<Way>;

static const std::vector<Wrong>& wrong_ways() {
  using W = Way;
  static const std::vector<Wrong> wrong = {
      {"one-sided-difference",
       "the difference is (L(x + h) - L(x)) / h; its error is of the order of h, not of h * h, and "
       "right gradients fail",
       {{.difference = W::kOneSided}}},
      {"divided-by-h",
       "L(x + h) - L(x - h) was divided by h; the two are 2 h apart",
       {{.difference = W::kNotHalved}}},
      {"tensor-not-changed",
       "every difference is 0: L was asked of tensors that had not changed. Was a copy of the "
       "number changed?",
       {{.difference = W::kNone}}},
      {"step-too-small",
       "h is so small that L(x + h) - L(x - h) has few digits left; STEP",
       {{.step = 1e-10}, {.step = 1e-11}, {.step = 1e-12}, {.step = 1e-13}, {.step = 1e-14}}},
      {"step-too-large",
       "h is so large that L is no straight line over 2 h; STEP",
       {{.step = 0.1}, {.step = 0.01}}},
      {"not-put-back",
       "a number was changed and not put back; all differences behind it are of another L",
       {{.restored = W::kNot}, {.restored = W::kNotBack}}},
      {"put-back-by-adding",
       "a number was put back by + h; x + h - 2 h + h has not always the bits of x: keep a copy",
       {{.restored = W::kByAdding}}},
      {"first-not-farthest",
       "the first wrong element is found; the farthest is asked for",
       {{.compared = W::kFirst}}},
      {"last-not-farthest",
       "the last wrong element is found; the farthest is asked for: remember how far it was off",
       {{.compared = W::kLast}}},
      {"sign-kept",
       "gradients that are too small are not found: take the absolute value",
       {{.compared = W::kSigned}}},
      {"relative-error",
       "the error was divided by the difference; an element near 0 wins that is hardly off",
       {{.compared = W::kRelative}}},
      {"nan-passes",
       "a NaN is not found: error > worst is false for it; !(error <= worst) is true",
       {{.compared = W::kNanPasses}}},
      {"nan-remembered-as-worst",
       "the worst error became NaN, and after that every element counts as farther: return at once",
       {{.compared = W::kNanKept}}},
      {"first-tensor-only", "only tensor 0 was looked at", {{.only_first = true}}},
      {"always-finds",
       "an element is found also if none is farther off than TOLERANCE: {-1, -1}",
       {{.never_nothing = true}}},
  };
  return wrong;
}

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

// What is found, and which number is not what it was.
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
  const auto looks = exercise::looks(wrong_ways(), [&](const Way& way) {
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
