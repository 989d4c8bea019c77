#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fold_the_scales.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  std::vector<float> weights(const std::vector<int>& S, const std::vector<float>& k_scales,
                             float q_scale, float scale) const {
    const auto factor = [&](size_t j) {
      const size_t group = is("single-keys")           ? j % 4
                           : is("fours-of-keys")       ? j / 2 % 8 / 2
                           : is("quarters-of-the-row") ? j * 4 / S.size()
                           : is("first-scale-for-all") ? 0
                           : is("eights-of-keys")      ? j / 8 % 4
                                                       : j % 8 / 2;
      const float k = is("key-scales-forgotten") ? 1 : k_scales[group],
                  q = is("query-scale-forgotten") ? 1 : q_scale;
      const float of_scores = is("softmax-scale-forgotten")    ? 1
                              : is("softmax-scale-twice")      ? scale * scale
                              : is("divided-by-softmax-scale") ? 1 / scale
                                                               : scale;
      const float both = is("root-of-scales") ? std::sqrt(q * k) : q * k;
      return is("divided-by-scales") ? of_scores / both : of_scores * both;
    };
    const auto score = [&](size_t j) { return static_cast<float>(S[j]) * factor(j); };
    size_t largest = 0;
    float m = -std::numeric_limits<float>::infinity(), m_with_k = m;
    std::vector<float> so_far;
    for (size_t j = 0; j < S.size(); ++j) {
      if (S[j] > S[largest]) largest = j;
      m_with_k = std::max(m_with_k, static_cast<float>(S[j]) * k_scales[j % 8 / 2]);
      m = std::max(m, is("maximum-of-sizes") ? std::abs(score(j)) : score(j));
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
      const float subtracted = is("maximum-of-integers")
                                   ? static_cast<float>(S[largest]) * factor(j)
                               : is("score-of-the-largest-integer") ? score(largest)
                               : is("no-maximum")                   ? 0
                               : is("maximum-from-zero")            ? std::max(m, 0.0f)
                               : is("maximum-of-the-lane")          ? of_lane(j)
                               : is("maximum-so-far")               ? so_far[j]
                               : is("plain-integers")               ? static_cast<float>(S[largest])
                               : is("with-key-scales")              ? m_with_k
                               : is("maximum-without-softmax-scale") ? m / scale
                                                                     : m;
      const float x = is("maximum-without-log2-e") ? score(j) * 1.44269504f - subtracted
                                                   : score(j) - subtracted;
      p[j] = is("two-for-e") || is("maximum-without-log2-e") ? std::exp2(x)
             : is("log2-e-and-exp")                          ? std::exp(x * 1.44269504f)
                                                             : std::exp(x);
      sum += p[j];
    }
    if (is("divided-by-the-sum"))
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

static const exercise::Table MISTAKES(R"(
single-keys
  key j got scale j mod 4. Two neighbours share one: j mod 8 / 2
fours-of-keys
  four neighbours share a scale here. Two do, as a lane has two of eight columns
quarters-of-the-row
  each quarter of the row got a scale. A lane's keys are spread over all groups of eight
eights-of-keys
  eight neighbours share a scale here. But they are in four lanes, which have four scales
first-scale-for-all
  all keys got the first scale of the four
maximum-of-integers
  the largest integer was subtracted before the scales: each key lost another amount, and a row
  must lose one
score-of-the-largest-integer
  m is the score of the largest integer. With other scales another key may have the largest score
no-maximum
  no maximum was subtracted
maximum-from-zero
  m begins at 0, or near it. All scores of a row may be far below
maximum-of-the-lane
  each lane has a different m. The weights of a row need the same one
maximum-so-far
  each weight uses the maximum of the keys so far, and the weights before a larger score were not
  corrected. Find m first, then compute the weights
maximum-without-scales: plain-integers
  m is the largest integer, and the scores have been multiplied by their scales
maximum-without-scales: with-key-scales
  m has the keys' scales alone. The scores have the query's and `scale`, too
maximum-without-softmax-scale
  the scores were multiplied by `scale` and m was not
maximum-of-sizes
  m is the largest |score|. A score of -9 is no maximum
query-scale-forgotten
  the query's scale is missing
key-scales-forgotten
  the keys' scales are missing
softmax-scale-forgotten
  the scores were not multiplied by `scale`
softmax-scale-twice
  the scores were multiplied by `scale` twice
divided-by-softmax-scale
  the scores were divided by `scale`. Multiply them by it
two-for-e
  2^(s - m) was computed. For e^(s - m) the factor needs log2 e
log2-e-and-exp
  log2 e was multiplied in, and then e^x computed. It belongs to 2^x
maximum-without-log2-e
  the scores were multiplied by log2 e and m was not
divided-by-scales
  the integers were divided by their scales. n stands for scale times n
root-of-scales
  the root of the two scales was taken. A product of two numbers has both
divided-by-the-sum
  the weights were divided by their sum. The kernel does that once, at the end
)");

static void check_row(const std::vector<int>& S, const std::vector<float>& k_scales, float q_scale,
                      float scale) {
  exercise::check_output<Way, Answer>({"p", 0, 1e-4}, MISTAKES, [&](const auto& way) {
    return exercise::numbers(way.weights(S, k_scales, q_scale, scale));
  });
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
