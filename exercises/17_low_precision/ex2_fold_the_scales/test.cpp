#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fold_the_scales.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Key { kPairs, kSingle, kFours, kQuarters, kFirstOnly, kOneLane } key = kPairs;
  enum Maximum {
    kOfScores,
    kOfIntegers,
    kLargestIntegersScore,
    kNone,
    kOfSizes,
    kFromZero,
    kOfLane,
    kSoFar,
    kPlainIntegers,
    kWithKeyScales,
    kWithoutSoftmaxScale
  } maximum = kOfScores;
  bool q_forgotten = false, k_forgotten = false, scale_forgotten = false, scale_twice = false,
       scale_divides = false;
  enum Base { kE, kTwo, kLog2Twice, kLog2OfScoreOnly } base = kE;
  bool divided = false, normalised = false, root = false;

  std::vector<float> weights(const std::vector<int>& S, const std::vector<float>& k_scales,
                             float q_scale, float scale) const {
    const auto factor = [&](size_t j) {
      const size_t group = key == kPairs       ? j % 8 / 2
                           : key == kSingle    ? j % 4
                           : key == kFours     ? j / 2 % 8 / 2
                           : key == kQuarters  ? j * 4 / S.size()
                           : key == kFirstOnly ? 0
                                               : j / 8 % 4;
      const float k = k_forgotten ? 1 : k_scales[group], q = q_forgotten ? 1 : q_scale;
      const float of_scores = scale_forgotten ? 1
                              : scale_twice   ? scale * scale
                              : scale_divides ? 1 / scale
                                              : scale;
      const float both = root ? std::sqrt(q * k) : q * k;
      return divided ? of_scores / both : of_scores * both;
    };
    const auto score = [&](size_t j) { return static_cast<float>(S[j]) * factor(j); };
    size_t largest = 0;
    float m = -std::numeric_limits<float>::infinity(), m_with_k = m;
    std::vector<float> so_far;
    for (size_t j = 0; j < S.size(); ++j) {
      if (S[j] > S[largest]) largest = j;
      m_with_k = std::max(m_with_k, static_cast<float>(S[j]) * k_scales[j % 8 / 2]);
      m = std::max(m, maximum == kOfSizes ? std::abs(score(j)) : score(j));
      so_far.push_back(m);
    }
    const auto of_lane = [&](size_t j) {
      float largest_of_lane = score(j);
      for (size_t i = 0; i < S.size(); ++i)
        if (i % 8 / 2 == j % 8 / 2) largest_of_lane = std::max(largest_of_lane, score(i));
      return largest_of_lane;
    };
    std::vector<float> p(S.size());
    float sum = 0;
    for (size_t j = 0; j < S.size(); ++j) {
      const float subtracted = maximum == kOfIntegers ? static_cast<float>(S[largest]) * factor(j)
                               : maximum == kLargestIntegersScore ? score(largest)
                               : maximum == kNone                 ? 0
                               : maximum == kFromZero             ? std::max(m, 0.0f)
                               : maximum == kOfLane               ? of_lane(j)
                               : maximum == kSoFar                ? so_far[j]
                               : maximum == kPlainIntegers        ? static_cast<float>(S[largest])
                               : maximum == kWithKeyScales        ? m_with_k
                               : maximum == kWithoutSoftmaxScale  ? m / scale
                                                                  : m;
      const float x =
          base == kLog2OfScoreOnly ? score(j) * 1.44269504f - subtracted : score(j) - subtracted;
      p[j] = base == kTwo || base == kLog2OfScoreOnly ? std::exp2(x)
             : base == kLog2Twice                     ? std::exp(x * 1.44269504f)
                                                      : std::exp(x);
      sum += p[j];
    }
    if (normalised)
      for (float& weight : p) weight /= sum;
    return p;
  }
};

struct Answer {
  std::vector<float> weights(const std::vector<int>& S, const std::vector<float>& k_scales,
                             float q_scale, float scale) const {
    return ::weights(S, k_scales, q_scale, scale);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const std::vector<Known> known = {
      {"single-keys",
       {.key = W::kSingle},
       "key j got scale j mod 4; two neighbours share one: j mod 8 / 2"},
      {"fours-of-keys",
       {.key = W::kFours},
       "four neighbours share a scale here; two do, as a lane has two of eight columns"},
      {"quarters-of-the-row",
       {.key = W::kQuarters},
       "each quarter of the row got a scale; a lane's keys are spread over all groups of eight"},
      {"eights-of-keys",
       {.key = W::kOneLane},
       "eight neighbours share a scale here; they are in four lanes, which have four scales"},
      {"first-scale-for-all", {.key = W::kFirstOnly}, "all keys got the first scale of the four"},
      {"maximum-of-integers",
       {.maximum = W::kOfIntegers},
       "the largest integer was subtracted before the scales: each key lost another amount, and a "
       "row must lose one"},
      {"score-of-the-largest-integer",
       {.maximum = W::kLargestIntegersScore},
       "m is the score of the largest integer; with other scales another key may have the largest "
       "score"},
      {"no-maximum", {.maximum = W::kNone}, "no maximum was subtracted"},
      {"maximum-from-zero",
       {.maximum = W::kFromZero},
       "m begins at 0, or near it; all scores of a row may be far below"},
      {"maximum-of-the-lane",
       {.maximum = W::kOfLane},
       "each lane has an m of its own; the weights of a row need the same one"},
      {"maximum-so-far",
       {.maximum = W::kSoFar},
       "each weight has the maximum of the keys up to its own, and nobody corrected those before a "
       "larger score; find m first, then compute the weights"},
      {"maximum-without-scales",
       {.maximum = W::kPlainIntegers},
       "m is the largest integer, and the scores have been multiplied by their scales"},
      {"maximum-without-scales",
       {.maximum = W::kWithKeyScales},
       "m has the keys' scales alone; the scores have the query's and `scale`, too"},
      {"maximum-without-softmax-scale",
       {.maximum = W::kWithoutSoftmaxScale},
       "the scores were multiplied by `scale` and m was not"},
      {"maximum-of-sizes",
       {.maximum = W::kOfSizes},
       "m is the largest |score|; a score of -9 is no maximum"},
      {"query-scale-forgotten", {.q_forgotten = true}, "the query's scale is missing"},
      {"key-scales-forgotten", {.k_forgotten = true}, "the keys' scales are missing"},
      {"softmax-scale-forgotten",
       {.scale_forgotten = true},
       "the scores were not multiplied by `scale`"},
      {"softmax-scale-twice", {.scale_twice = true}, "the scores were multiplied by `scale` twice"},
      {"divided-by-softmax-scale",
       {.scale_divides = true},
       "the scores were divided by `scale`; it multiplies them"},
      {"two-for-e",
       {.base = W::kTwo},
       "2^(s - m) was computed; for e^(s - m) the factor needs log2 e"},
      {"log2-e-and-exp",
       {.base = W::kLog2Twice},
       "log2 e was multiplied in, and then e^x computed; it belongs to 2^x"},
      {"maximum-without-log2-e",
       {.base = W::kLog2OfScoreOnly},
       "the scores were multiplied by log2 e and m was not"},
      {"divided-by-scales",
       {.divided = true},
       "the integers were divided by their scales; n stands for scale times n"},
      {"root-of-scales",
       {.root = true},
       "the root of the two scales was taken; a product of two numbers has both"},
      {"divided-by-the-sum",
       {.normalised = true},
       "the weights were divided by their sum; the kernel does that once, at the end"},
  };
  return known;
}

template <class Any>
static Numbers computed(const Any& way, const std::vector<int>& S,
                        const std::vector<float>& k_scales, float q_scale, float scale) {
  return exercise::numbers(way.weights(S, k_scales, q_scale, scale));
}

static void check_row(const std::vector<int>& S, const std::vector<float>& k_scales, float q_scale,
                      float scale) {
  const auto mistakes = exercise::mistakes(
      all_known(), [&](const Way& way) { return computed(way, S, k_scales, q_scale, scale); });
  exercise::check_output({"p", 0, 1e-4}, computed(Answer{}, S, k_scales, q_scale, scale),
                         computed(Way{}, S, k_scales, q_scale, scale), mistakes);
}

static std::vector<int> integers(int count, int seed, float size) {
  std::vector<int> S;
  for (const float number : exercise::random_numbers(count, seed, size))
    S.push_back(static_cast<int>(number));
  return S;
}

TEST_CASE("one scale") {
  check_row(integers(16, 1, 4000), {0.02f, 0.02f, 0.02f, 0.02f}, 0.03f, 0.125f);
}
TEST_CASE("four scales") {
  check_row(integers(16, 2, 4000), {0.01f, 0.02f, 0.03f, 0.05f}, 0.03f, 0.125f);
}
TEST_CASE("the largest integer has the smallest scale") {
  check_row({9000, 8000, 3000, -100, 2000, 40, -700, 900, 50, 60, 70, 80, -5000, 20, 30, 10},
            {0.002f, 0.01f, 0.03f, 0.02f}, 0.04f, 0.125f);
}
TEST_CASE("all scores negative") {
  check_row({-9000, -8000, -3000, -1000, -2000, -4000, -7000, -900}, {0.01f, 0.02f, 0.03f, 0.05f},
            0.03f, 0.125f);
  check_row({-9000, -8000, -3000, -1000, -2000, -4000, -7000, -900}, {1, 2, 1.5f, 3}, 0.5f, 0.125f);
}
TEST_CASE("scales that differ by 1000") {
  check_row(integers(24, 3, 3000), {0.05f, 0.00005f, 0.01f, 0.0004f}, 0.03f, 0.09f);
}
TEST_CASE("a row of 64") {
  check_row(integers(64, 4, 3000), {0.01f, 0.02f, 0.015f, 0.03f}, 0.02f, 0.0883883f);
}
TEST_CASE("the largest score first, or last") {
  check_row({9000, -10, 20, 30, 40, 50, 60, 70}, {0.03f, 0.02f, 0.01f, 0.02f}, 0.03f, 0.125f);
  check_row({70, -10, 20, 30, 40, 50, 60, 9000}, {0.01f, 0.02f, 0.01f, 0.03f}, 0.03f, 0.125f);
}
