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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Prepared operator()(const Row& row) const {
    float sum = 0;
    for (int i = 0; i < HEAD_DIM; ++i)
      sum += is("d-from-o-alone") ? row.O[i] * row.O[i]
                                  : (is("d-from-do-alone") ? row.dO[i] : row.O[i]) * row.dO[i];
    if (is("d-forgotten") || (!row.exists && !is("row-past-the-end-read"))) sum = 0;
    if (is("d-scaled")) sum *= SCALE;
    if (is("d-is-a-mean")) sum /= HEAD_DIM;
    if (!row.exists)
      return {is("minus-infinity-for-padding") ? -INF : is("padding-at-zero") ? 0 : INF, sum};
    if (row.LSE == -INF)
      return {is("minus-infinity-kept") ? -INF : is("masked-row-at-zero") ? 0 : INF, sum};
    const float factor = is("log2e-forgotten")  ? 1
                         : is("log2e-inverted") ? 1 / LOG2_E
                         : is("scale-in-lse")   ? SCALE * LOG2_E
                                                : LOG2_E;
    return {row.LSE * factor, sum};
  }
};

static const exercise::Table MISTAKES(R"(
minus-infinity-kept
  the LSE of a fully masked row is -Inf, and -Inf - (-Inf) is NaN
masked-row-at-zero
  LSE_log2 is 0 for a fully masked row. This works only as long as every masked score is -Inf
minus-infinity-for-padding
  LSE_log2 is -Inf for a row past the end, so that P is Inf there. P must be 0 there
padding-at-zero
  LSE_log2 is 0 for a row past the end. Its scores are 0, and exp2(0) is 1
log2e-forgotten
  LSE is a natural logarithm and the loop computes exp2: multiply by log2(e)
log2e-inverted
  LSE was multiplied by ln(2). The factor is log2(e)
scale-in-lse
  LSE was multiplied by the scale. But LSE already contains it, because it was computed from scaled
  scores
d-forgotten
  D is 0, so that dS = P * dP
d-from-o-alone
  D is the sum of O * O. It should be the sum of O * dO
d-from-do-alone
  D is the sum of dO * dO. It should be the sum of O * dO
d-scaled
  D was multiplied by the scale. The kernel multiplies dQ and dK by it at the end
d-is-a-mean
  D was divided by head_dim. It should be the sum
row-past-the-end-read
  D of a row past the end was computed from memory that is not there. It must be 0
)");

// The loop over P and dS of each key.
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
      exercise::mistakes<Way>(MISTAKES, [&](const Way& way) { return loop(row, way(row)); });
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
  masked.scores[KEYS - 1] = 0;  // the tile's last key is past the end of K, so its score is 0
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
