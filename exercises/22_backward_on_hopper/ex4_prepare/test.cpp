#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <prepare.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

constexpr float INF = std::numeric_limits<float>::infinity();
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
constexpr float LOG2_E = 1.4426950408889634f, SCALE = 0.125f;
constexpr int HEAD_DIM = 12, KEYS = 6;

struct Row {
  std::vector<float> O, dO, scores, dP;
  float LSE;
  bool exists;
};

// prepare() as people write it: right as it is here, and each mistake is a change.
struct Way {
  enum Log { kLog2E, kNatural, kLn2, kScaled } log = kLog2E;
  enum Masked { kInf, kMinusInf, kZero } masked = kInf, padding = kInf;
  enum D { kSum, kNone, kO2, kDo2, kScaledSum, kMean, kOfPadding } d = kSum;

  Prepared operator()(const Row& row) const {
    const float of_masked[] = {INF, -INF, 0};
    float sum = 0;
    for (int i = 0; i < HEAD_DIM; ++i)
      sum += d == kO2 ? row.O[i] * row.O[i] : (d == kDo2 ? row.dO[i] : row.O[i]) * row.dO[i];
    if (d == kNone || (!row.exists && d != kOfPadding)) sum = 0;
    if (d == kScaledSum) sum *= SCALE;
    if (d == kMean) sum /= HEAD_DIM;
    if (!row.exists) return {of_masked[padding], sum};
    if (row.LSE == -INF) return {of_masked[masked], sum};
    const float factor = log == kNatural  ? 1
                         : log == kLn2    ? 1 / LOG2_E
                         : log == kScaled ? SCALE * LOG2_E
                                          : LOG2_E;
    return {row.LSE * factor, sum};
  }
};

static const std::vector<exercise::Known<Way>>& known_ways() {
  static const std::vector<exercise::Known<Way>> ways = {
      {"minus-infinity-kept",
       {.masked = Way::kMinusInf},
       "the LSE of a fully masked row is -Inf, and -Inf - (-Inf) is NaN"},
      {"masked-row-at-zero",
       {.masked = Way::kZero},
       "LSE_log2 is 0 for a fully masked row; this works only as long as every masked score is "
       "-Inf"},
      {"minus-infinity-for-padding",
       {.padding = Way::kMinusInf},
       "LSE_log2 is -Inf for a row past the end, so that P is Inf there; it must be 0"},
      {"padding-at-zero",
       {.padding = Way::kZero},
       "LSE_log2 is 0 for a row past the end; its scores are 0, and exp2(0) is 1"},
      {"log2e-forgotten",
       {.log = Way::kNatural},
       "LSE is a natural logarithm and the loop computes exp2: multiply by log2(e)"},
      {"log2e-inverted", {.log = Way::kLn2}, "LSE was multiplied by ln(2); the factor is log2(e)"},
      {"scale-in-lse",
       {.log = Way::kScaled},
       "LSE was multiplied by the scale; it already contains it, because it was computed from "
       "scaled scores"},
      {"d-forgotten", {.d = Way::kNone}, "D is 0, so that dS = P * dP"},
      {"d-from-o-alone", {.d = Way::kO2}, "D is the sum of O * O; it is the sum of O * dO"},
      {"d-from-do-alone", {.d = Way::kDo2}, "D is the sum of dO * dO; it is the sum of O * dO"},
      {"d-scaled",
       {.d = Way::kScaledSum},
       "D was multiplied by the scale; the kernel multiplies dQ and dK by it at the end"},
      {"d-is-a-mean", {.d = Way::kMean}, "D was divided by head_dim; it is a sum"},
      {"row-past-the-end-read",
       {.d = Way::kOfPadding},
       "D of a row past the end was computed from memory that is not there; it must be 0"},
  };
  return ways;
}

// The loop: P and dS of each key.
static exercise::Numbers loop(const Row& row, const Prepared& prepared) {
  exercise::Numbers numbers;
  for (int key = 0; key < KEYS; ++key) {
    const float p = std::exp2(SCALE * LOG2_E * row.scores[key] - prepared.LSE_log2);
    numbers.push_back(p);
    numbers.push_back(p * (row.dP[key] - prepared.D));
  }
  return numbers;
}

// In float64, from the scores themselves.
static exercise::Numbers exact(const Row& row) {
  double sum = 0, d = 0;
  for (const float s : row.scores) sum += std::exp(double{SCALE} * s);
  for (int i = 0; i < HEAD_DIM; ++i) d += double{row.O[i]} * row.dO[i];
  exercise::Numbers numbers;
  for (int key = 0; key < KEYS; ++key) {
    const bool none = !row.exists || row.LSE == -INF;
    const double p = none ? 0 : std::exp(double{SCALE} * row.scores[key]) / sum;
    numbers.push_back(p);
    numbers.push_back(none ? 0 : p * (row.dP[key] - d));
  }
  return numbers;
}

static void check_row(const Row& row) {
  const auto mistakes =
      exercise::mistakes(known_ways(), [&](const Way& way) { return loop(row, way(row)); });
  const Prepared got = prepare(row.O.data(), row.dO.data(), HEAD_DIM, row.LSE, row.exists);
  exercise::check_output({"key", 2, 1e-5, {"P", "dS"}}, loop(row, got), exact(row), mistakes);
}

static Row row(int seed, bool ordinary = true) {
  Row row{exercise::random_numbers(HEAD_DIM, seed),
          exercise::random_numbers(HEAD_DIM, seed + 1),
          exercise::random_numbers(KEYS, seed + 2, 8),
          exercise::random_numbers(KEYS, seed + 3),
          0,
          true};
  if (!ordinary) return row;
  double sum = 0;
  for (const float s : row.scores) sum += std::exp(double{SCALE} * s);
  row.LSE = static_cast<float>(std::log(sum));
  return row;
}

TEST_CASE("a row that sees all keys") { check_row(row(1)); }
TEST_CASE("a row that sees some keys") {
  Row some = row(5, false);
  some.scores[4] = some.scores[5] = -INF;
  double sum = 0;
  for (const float s : some.scores) sum += std::exp(double{SCALE} * s);
  some.LSE = static_cast<float>(std::log(sum));
  check_row(some);
}
TEST_CASE("a row whose keys are all masked") {
  Row masked = row(9, false);
  masked.O.assign(HEAD_DIM, 0);
  masked.scores.assign(KEYS, -INF);
  masked.LSE = -INF;
  check_row(masked);
  masked.scores[KEYS - 1] = 0;  // the tile's last key is past the end of K: its score is 0
  check_row(masked);
}
TEST_CASE("a row past the end of Q") {
  Row past{std::vector<float>(HEAD_DIM, NOT_A_NUMBER),
           std::vector<float>(HEAD_DIM, NOT_A_NUMBER),
           std::vector<float>(KEYS, 0),
           std::vector<float>(KEYS, 0),
           NOT_A_NUMBER,
           false};
  check_row(past);
}
TEST_CASE("a row past the end of Q, whose memory holds another row") {
  Row past = row(13);
  past.exists = false;
  past.scores.assign(KEYS, 0);
  past.dP.assign(KEYS, 0);
  check_row(past);
}
