#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <smooth.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  std::vector<float> smooth(std::vector<float>& K, int dim) const {
    const size_t keys = K.size() / dim;
    const auto channel = [&](size_t i, bool other) { return other ? i / keys : i % dim; };
    std::vector<float> mean(dim), low(K.begin(), K.begin() + dim), high = low;
    float all = 0;
    for (size_t i = 0; i < K.size(); ++i) {
      const size_t d = i % dim;
      low[d] = std::min(low[d], K[i]);
      high[d] = std::max(high[d], K[i]);
      mean[channel(i, is("other-axis-added"))] += is("mean-of-sizes") ? std::abs(K[i]) : K[i];
      all += K[i];
    }
    const float divisor = is("sum-for-mean")          ? 1
                          : is("divided-by-dim")      ? static_cast<float>(dim)
                          : is("divided-by-all")      ? static_cast<float>(K.size())
                          : is("divided-by-one-less") ? static_cast<float>(keys) - 1
                                                      : static_cast<float>(keys);
    for (int d = 0; d < dim; ++d) {
      mean[d] /= divisor;
      if (is("middle-for-mean")) mean[d] = (low[d] + high[d]) / 2;
      if (is("one-mean-for-all")) mean[d] = all / static_cast<float>(K.size());
      if (is("first-key-for-mean")) mean[d] = K[d];
    }
    std::vector<float> key_means(keys);
    for (size_t i = 0; i < K.size(); ++i) key_means[i / dim] += K[i] / static_cast<float>(dim);
    for (size_t i = 0; i < K.size(); ++i) {
      const float one = is("of-key") || is("of-key-returned")
                            ? key_means[i / dim]
                            : mean[channel(i, is("other-axis-taken"))];
      if (!is("mean-not-taken-off")) K[i] -= is("mean-added") ? -one : one;
    }
    if (is("of-key-returned")) return key_means;
    if (is("mean-of-what-is-left")) std::fill(mean.begin(), mean.end(), 0.0f);
    if (is("mean-negated"))
      for (float& value : mean) value = -value;
    return mean;
  }
  float corrected(float lse, const std::vector<float>& q, const std::vector<float>& mean,
                  float scale) const {
    float product = 0, sum = 0;
    for (size_t d = 0; d < q.size(); ++d) product += q[d] * mean[d], sum += mean[d];
    const float c = scale * product;
    return is("correction-subtracted")         ? lse - c
           : is("correction-without-scale")    ? lse + product
           : is("correction-divided-by-scale") ? lse + product / scale
           : is("logarithm-of-correction")     ? lse + std::log(std::abs(c))
           : is("correction-in-base-two")      ? lse + c * 1.44269504f
           : is("correction-without-q")        ? lse + scale * sum
           : is("log-sum-exp-scaled")          ? scale * (lse + product)
           : is("not-corrected")               ? lse
                                               : lse + c;
  }
};

struct Answer {
  std::vector<float> smooth(std::vector<float>& K, int dim) const { return ::smooth(K, dim); }
  float corrected(float lse, const std::vector<float>& q, const std::vector<float>& mean,
                  float scale) const {
    return ::corrected(lse, q, mean, scale);
  }
};

static const exercise::Table MISTAKES(R"(
mean-of-each-key: of-key
  each key lost the mean over its channels, a different number for each key, which changes softmax.
  A channel loses its mean over the keys
mean-of-each-key: of-key-returned
  each key lost the mean over its channels, and these means were returned, one for each key. A
  channel loses its mean over the keys
other-axis: other-axis-added other-axis-taken; other-axis-added; other-axis-taken
  element i was taken for channel i / keys. K is [keys, dim], row after row: channel i % dim
one-mean-for-all
  all channels lost the mean of the whole matrix
middle-for-mean
  the middle of the smallest and the largest was taken. Take the mean
mean-of-sizes
  the mean of |K| was taken. Take it with its sign
first-key-for-mean
  the first key was taken off all. softmax would not mind, but it is not the mean
sum-for-mean
  the sum was taken for the mean: divide by the keys
divided-by-dim
  the sum over the keys was divided by the number of channels
divided-by-all
  the sum over the keys was divided by the number of all elements
divided-by-one-less
  the sum was divided by one less than the keys, as for a variance
mean-added
  the mean was added to K. Subtract it
mean-not-taken-off
  K has kept its mean
mean-of-what-is-left
  the mean that was returned is that of the smoothed K, 0. The one that was taken off is needed
mean-negated
  the mean was returned with the other sign
correction-subtracted
  the correction was subtracted. The scores have lost it, so it is added
correction-without-scale
  q . mean was added without `scale`. Scores are scale * q . k
log-sum-exp-scaled
  `scale` multiplied the log-sum-exp as well. Multiply only q . mean by it
correction-divided-by-scale
  q . mean was divided by `scale`. Scores are scale * q . k
not-corrected
  the log-sum-exp was returned unchanged. Every score has lost scale * q . mean
logarithm-of-correction
  the logarithm of q . mean was added. ln(e^c) is c itself
correction-in-base-two
  the correction was multiplied by log2 e. The log-sum-exp is a natural logarithm
correction-without-q
  the sum of the mean was added. Each channel counts by the query's: q . mean
)");

template <class Any>
static Numbers smoothed(const Any& way, std::vector<float> K, int dim) {
  Numbers all = exercise::numbers(way.smooth(K, dim));
  for (const float value : K) all.push_back(value);
  return all;
}

static void check_keys(const std::vector<float>& K, int dim) {
  exercise::Output output{"mean and K", dim, 1e-5};
  for (size_t i = 0; i < dim + K.size(); ++i) {
    const size_t row = i / dim;
    output.names.push_back((row == 0 ? "mean" : "K[" + std::to_string(row - 1) + "]") + "[" +
                           std::to_string(i % dim) + "]");
  }
  exercise::check_output<Way, Answer>(output, MISTAKES,
                                      [&](const auto& way) { return smoothed(way, K, dim); });
}

static void check_lse(const std::vector<float>& q, const std::vector<float>& mean, float scale) {
  const float lse = 6.25f;
  exercise::check_output<Way, Answer>({"lse", 0, 1e-5}, MISTAKES, [&](const auto& way) {
    return Numbers{way.corrected(lse, q, mean, scale)};
  });
}

TEST_CASE("one key") { check_keys({4, -2, 0.5f}, 3); }
TEST_CASE("three keys") { check_keys({9, -4, 0.5f, 8.5f, -5, 0, 8, -4.5f, 1}, 3); }
TEST_CASE("two keys of five channels") { check_keys({1, 2, 3, 4, 5, -1, 4, 3, 0, 9}, 5); }
TEST_CASE("many keys, means far from 0") {
  std::vector<float> K = exercise::random_numbers(40 * 8, 1);
  for (size_t i = 0; i < K.size(); ++i) K[i] += static_cast<float>(i % 8) * 3 - 9;
  check_keys(K, 8);
}
TEST_CASE("the log-sum-exp") {
  check_lse({1, 2, -3}, {8.5f, -4.5f, 0.5f}, 0.5f);
  check_lse({0, 0, 1}, {1, 2, 8}, 0.125f);
  check_lse(exercise::random_numbers(64, 2), exercise::random_numbers(64, 3, 5), 0.125f);
}

// Both functions, against the sums themselves.
TEST_CASE("ln of the sum of e^s") {
  const std::vector<float> K = {9, -4, 0.5f, 8.5f, -5, 0, 8, -4.5f, 1}, q = {0.5f, 1, -2};
  const auto lse = [&](const std::vector<float>& keys) {
    double sum = 0;
    for (size_t j = 0; j < 3; ++j) {
      double s = 0;
      for (size_t d = 0; d < 3; ++d) s += double(q[d]) * keys[j * 3 + d];
      sum += std::exp(0.5 * s);
    }
    return static_cast<float>(std::log(sum));
  };
  const auto of_smoothed = [&](const auto& way) {
    std::vector<float> keys = K;
    const std::vector<float> mean = way.smooth(keys, 3);
    return way.corrected(lse(keys), q, mean, 0.5f);
  };
  const auto mistakes =
      exercise::mistakes<Way>(MISTAKES, [&](const Way& way) { return Numbers{of_smoothed(way)}; });
  exercise::check_output({"lse of K, from the smoothed K's", 0, 1e-5}, {of_smoothed(Answer{})},
                         {lse(K)}, mistakes);
}
