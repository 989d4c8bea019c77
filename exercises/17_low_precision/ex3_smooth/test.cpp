#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <smooth.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The functions as people write them: right as they stand here, each mistake is a change to them.
struct Way {
  enum Mean {
    kOfChannel,
    kOfKey,
    kOfAll,
    kMiddle,
    kOfSizes,
    kFirstKey,
    kOfKeyReturned
  } of = kOfChannel;
  enum Count { kKeys, kNone, kDim, kNumbers, kKeysLessOne } count = kKeys;
  enum Taken { kMinus, kPlus, kNotTaken, kMeanOfRest, kNegative } taken = kMinus;
  bool other_axis_added = false, other_axis_taken = false;  // element i is channel i / keys
  enum Lost {
    kAdded,
    kSubtracted,
    kNoScale,
    kNotCorrected,
    kDivided,
    kLogOf,
    kBase2,
    kMeanOnly,
    kAllScaled
  } lost = kAdded;

  std::vector<float> smooth(std::vector<float>& K, int dim) const {
    const size_t keys = K.size() / dim;
    const auto channel = [&](size_t i, bool other) { return other ? i / keys : i % dim; };
    std::vector<float> mean(dim), low(K.begin(), K.begin() + dim), high = low;
    float all = 0;
    for (size_t i = 0; i < K.size(); ++i) {
      const size_t d = i % dim;
      low[d] = std::min(low[d], K[i]);
      high[d] = std::max(high[d], K[i]);
      mean[channel(i, other_axis_added)] += of == kOfSizes ? std::abs(K[i]) : K[i];
      all += K[i];
    }
    const float divisor = count == kNone          ? 1
                          : count == kDim         ? static_cast<float>(dim)
                          : count == kNumbers     ? static_cast<float>(K.size())
                          : count == kKeysLessOne ? static_cast<float>(keys) - 1
                                                  : static_cast<float>(keys);
    for (int d = 0; d < dim; ++d) {
      mean[d] /= divisor;
      if (of == kMiddle) mean[d] = (low[d] + high[d]) / 2;
      if (of == kOfAll) mean[d] = all / static_cast<float>(K.size());
      if (of == kFirstKey) mean[d] = K[d];
    }
    std::vector<float> key_means(keys);
    for (size_t i = 0; i < K.size(); ++i) key_means[i / dim] += K[i] / static_cast<float>(dim);
    for (size_t i = 0; i < K.size(); ++i) {
      const float one = of == kOfKey || of == kOfKeyReturned ? key_means[i / dim]
                                                             : mean[channel(i, other_axis_taken)];
      if (taken == kMinus || taken == kMeanOfRest || taken == kNegative) K[i] -= one;
      if (taken == kPlus) K[i] += one;
    }
    if (of == kOfKeyReturned) return key_means;
    if (taken == kMeanOfRest) std::fill(mean.begin(), mean.end(), 0.0f);
    if (taken == kNegative)
      for (float& value : mean) value = -value;
    return mean;
  }
  float corrected(float lse, const std::vector<float>& q, const std::vector<float>& mean,
                  float scale) const {
    float product = 0, sum = 0;
    for (size_t d = 0; d < q.size(); ++d) product += q[d] * mean[d], sum += mean[d];
    const float c = scale * product;
    return lost == kAdded        ? lse + c
           : lost == kSubtracted ? lse - c
           : lost == kNoScale    ? lse + product
           : lost == kDivided    ? lse + product / scale
           : lost == kLogOf      ? lse + std::log(std::abs(c))
           : lost == kBase2      ? lse + c * 1.44269504f
           : lost == kMeanOnly   ? lse + scale * sum
           : lost == kAllScaled  ? scale * (lse + product)
                                 : lse;
  }
};

struct Answer {
  std::vector<float> smooth(std::vector<float>& K, int dim) const { return ::smooth(K, dim); }
  float corrected(float lse, const std::vector<float>& q, const std::vector<float>& mean,
                  float scale) const {
    return ::corrected(lse, q, mean, scale);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const other_axis =
      "element i was taken for channel i / keys; K is [keys, dim], row after row: channel i % dim";
  static const std::vector<Known> known = {
      {"mean-of-each-key",
       {.of = W::kOfKey},
       "each key lost the mean of its own channels: another number for each key, which softmax "
       "sees. A channel loses its mean over the keys"},
      {"mean-of-each-key",
       {.of = W::kOfKeyReturned},
       "each key lost the mean of its own channels, and these means were returned, one for each "
       "key. A channel loses its mean over the keys"},
      {"other-axis", {.other_axis_added = true, .other_axis_taken = true}, other_axis},
      {"other-axis", {.other_axis_added = true}, other_axis},
      {"other-axis", {.other_axis_taken = true}, other_axis},
      {"one-mean-for-all", {.of = W::kOfAll}, "all channels lost the mean of the whole matrix"},
      {"middle-for-mean",
       {.of = W::kMiddle},
       "the middle of the smallest and the largest was taken; it is the mean that they ask for"},
      {"mean-of-sizes", {.of = W::kOfSizes}, "the mean of |K| was taken; with its sign"},
      {"first-key-for-mean",
       {.of = W::kFirstKey},
       "the first key was taken off all; softmax would not mind, but it is not the mean"},
      {"sum-for-mean", {.count = W::kNone}, "the sum was taken for the mean: divide by the keys"},
      {"divided-by-dim",
       {.count = W::kDim},
       "the sum over the keys was divided by the number of channels"},
      {"divided-by-all",
       {.count = W::kNumbers},
       "the sum over the keys was divided by the number of all elements"},
      {"divided-by-one-less",
       {.count = W::kKeysLessOne},
       "the sum was divided by one less than the keys, as for a variance"},
      {"mean-added", {.taken = W::kPlus}, "the mean was added to K; it is taken off"},
      {"mean-not-taken-off", {.taken = W::kNotTaken}, "K has kept its mean"},
      {"mean-of-what-is-left",
       {.taken = W::kMeanOfRest},
       "the mean that was returned is that of the smoothed K, 0; the one that was taken off is "
       "needed"},
      {"mean-negated", {.taken = W::kNegative}, "the mean was returned with the other sign"},
      {"correction-subtracted",
       {.lost = W::kSubtracted},
       "the correction was subtracted; the scores have lost it, so it is added"},
      {"correction-without-scale",
       {.lost = W::kNoScale},
       "q . mean was added without `scale`; scores are scale * q . k"},
      {"log-sum-exp-scaled",
       {.lost = W::kAllScaled},
       "`scale` multiplied the log-sum-exp as well; of the two only q . mean wants it"},
      {"correction-divided-by-scale",
       {.lost = W::kDivided},
       "q . mean was divided by `scale`; scores are scale * q . k"},
      {"not-corrected",
       {.lost = W::kNotCorrected},
       "the log-sum-exp was returned as it came; every score has lost scale * q . mean"},
      {"logarithm-of-correction",
       {.lost = W::kLogOf},
       "the logarithm of q . mean was added; ln(e^c) is c itself"},
      {"correction-in-base-two",
       {.lost = W::kBase2},
       "the correction was multiplied by log2 e; the log-sum-exp is a natural logarithm"},
      {"correction-without-q",
       {.lost = W::kMeanOnly},
       "the sum of the mean was added; each channel counts by the query's: q . mean"},
  };
  return known;
}

template <class Any>
static Numbers smoothed(const Any& way, std::vector<float> K, int dim) {
  Numbers all = exercise::numbers(way.smooth(K, dim));
  for (const float value : K) all.push_back(value);
  return all;
}

static void check_keys(const std::vector<float>& K, int dim) {
  const auto mistakes =
      exercise::mistakes(all_known(), [&](const Way& way) { return smoothed(way, K, dim); });
  exercise::Output output{"mean and K", dim, 1e-5};
  for (size_t i = 0; i < dim + K.size(); ++i) {
    const size_t row = i / dim;
    output.names.push_back((row == 0 ? "mean" : "K[" + std::to_string(row - 1) + "]") + "[" +
                           std::to_string(i % dim) + "]");
  }
  exercise::check_output(output, smoothed(Answer{}, K, dim), smoothed(Way{}, K, dim), mistakes);
}

static void check_lse(const std::vector<float>& q, const std::vector<float>& mean, float scale) {
  const float lse = 6.25f;
  const auto mistakes = exercise::mistakes(
      all_known(), [&](const Way& way) { return Numbers{way.corrected(lse, q, mean, scale)}; });
  exercise::check_output({"lse", 0, 1e-5}, {Answer{}.corrected(lse, q, mean, scale)},
                         {Way{}.corrected(lse, q, mean, scale)}, mistakes);
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
      exercise::mistakes(all_known(), [&](const Way& way) { return Numbers{of_smoothed(way)}; });
  exercise::check_output({"lse of K, from the smoothed K's", 0, 1e-5}, {of_smoothed(Answer{})},
                         {lse(K)}, mistakes);
}
