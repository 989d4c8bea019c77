#include <doctest/doctest.h>

#include <cmath>
#include <combine.hpp>
#include <limits>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kDim = 3;

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Weight {
    kRight,
    kEqual,
    kEqualSeen,
    kLse,
    kNoMaximum,
    kMaximumFromZero,
    kAbsolute,
    kBase2
  } weight = kRight;
  enum Lse { kLogSum, kMaximum, kNoMaximumBack, kNoLog, kMean, kSumOfAll } lse = kLogSum;
  bool divided = true, guarded = true, empty_is_zero = false, nothing_is_zero = false;
  int first = 0, last = 0;  // splits that are left out

  Numbers operator()(const Numbers& O, Numbers LSE) const {
    const int splits = static_cast<int>(LSE.size());
    double m = weight == kMaximumFromZero ? 0 : -kInfinity, l = 0, sum_of_lse = 0, w_sum = 0;
    if (empty_is_zero)
      for (double& one : LSE) one = one == -kInfinity ? 0 : one;
    bool seen = false;
    for (int s = first; s < splits - last; ++s) {
      m = LSE[s] > m ? LSE[s] : m;
      seen |= LSE[s] != -kInfinity;
      if (LSE[s] != -kInfinity) sum_of_lse += LSE[s];
    }
    Numbers result(kDim + 1, 0.0);
    if (!seen && guarded) {
      result[kDim] = nothing_is_zero ? 0 : -kInfinity;
      return result;
    }
    if (weight == kNoMaximum) m = 0;
    for (int s = first; s < splits - last; ++s) {
      // fp32, where it matters: e^x past 88.7 is Inf
      const float x = static_cast<float>(LSE[s] - m);
      const double e = static_cast<float>(weight == kBase2 ? std::exp2(x) : std::exp(x));
      const double w = weight == kEqual       ? 1.0
                       : weight == kEqualSeen ? (LSE[s] == -kInfinity ? 0.0 : 1.0)
                       : weight == kLse       ? (LSE[s] == -kInfinity ? 0.0 : LSE[s])
                                              : e;
      l += e;
      w_sum += w;
      for (int d = 0; d < kDim; ++d) result[d] += w * O[s * kDim + d];
    }
    if (divided)
      for (int d = 0; d < kDim; ++d) result[d] /= weight == kAbsolute ? splits : w_sum;
    result[kDim] = lse == kMaximum         ? m
                   : lse == kNoMaximumBack ? std::log(l)
                   : lse == kNoLog         ? m + l
                   : lse == kMean          ? sum_of_lse / splits
                   : lse == kSumOfAll      ? sum_of_lse
                                           : m + std::log(l);
    return result;
  }
};

static void check_combined(const Numbers& LSE) {
  const int splits = static_cast<int>(LSE.size());
  Numbers O = exercise::numbers(exercise::random_numbers(splits * kDim, 7 + splits));
  for (int s = 0; s < splits; ++s)
    for (int d = 0; d < kDim; ++d)
      if (LSE[s] == -kInfinity) O[s * kDim + d] = 0;
  const std::vector<float> O_splits(O.begin(), O.end()), LSE_splits(LSE.begin(), LSE.end());
  std::vector<float> got(kDim + 1, std::numeric_limits<float>::quiet_NaN());
  got[kDim] = combine(splits, kDim, O_splits.data(), LSE_splits.data(), got.data());

  using W = Way;
  std::vector<exercise::Mistake> mistakes;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    mistakes.push_back({name, way(O, LSE), explanation});
  };
  const char* const average =
      "all splits weigh the same; the weight of a split is e^(its LSE - the LSE of all)";
  mistake("plain-average", average, {.weight = W::kEqual});
  mistake("plain-average", average, {.weight = W::kEqualSeen});
  mistake("weighted-by-lse", "the weight is LSE itself; it is e^LSE, relative to all",
          {.weight = W::kLse});
  const char* const overflow =
      "e^LSE without a maximum: past 88.7 it is Inf in fp32, and Inf / Inf is NaN; below -103 all "
      "are 0: subtract the largest LSE first";
  mistake("no-maximum", overflow, {.weight = W::kNoMaximum});
  mistake("powers-of-two",
          "the weights are powers of 2; LSE is a natural logarithm: e^(LSE - m), unless it was "
          "multiplied by log2 e",
          {.weight = W::kBase2});
  mistake("maximum-starts-at-zero",
          "the maximum begins with 0; if every LSE is very negative, every e^(LSE - 0) is 0, and "
          "0 / 0 is NaN: begin with -inf",
          {.weight = W::kMaximumFromZero});
  mistake("not-divided", "O was not divided by the sum of the weights", {.divided = false});
  mistake("divided-by-splits",
          "O was divided by the number of splits; it is the sum of the weights",
          {.weight = W::kAbsolute});
  mistake("nothing-minus-nothing",
          "if all splits are empty, -inf - (-inf) is NaN; O is 0 then and LSE -inf",
          {.guarded = false});
  mistake("empty-split-counts",
          "an empty split was taken as one whose LSE is 0: it weighs e^0 then; its weight is "
          "e^-inf = 0",
          {.empty_is_zero = true});
  mistake("lse-of-nothing-is-zero", "of no key at all LSE is -inf, the logarithm of 0",
          {.nothing_is_zero = true});
  mistake("lse-is-the-maximum", "LSE is the largest one; it is m + log of the sum of the weights",
          {.lse = W::kMaximum});
  mistake("maximum-not-added", "LSE lacks the maximum that was subtracted: m + log l",
          {.lse = W::kNoMaximumBack});
  mistake("log-forgotten", "LSE is m + l; it is m + log l", {.lse = W::kNoLog});
  mistake("mean-of-lse", "LSE is the mean of the splits'; sums of e^x add up, logarithms do not",
          {.lse = W::kMean});
  mistake("sum-of-lse", "LSE is the sum of the splits'; sums of e^x add up, logarithms do not",
          {.lse = W::kSumOfAll});
  mistake("first-split-forgotten", "the first split is left out", {.first = 1});
  mistake("last-split-forgotten", "the last split is left out", {.last = 1});
  exercise::check_output({"result", 0, 1e-5}, exercise::numbers(got), Way{}(O, LSE), mistakes);
}

TEST_CASE("two splits: O[0] to O[2], then LSE") { check_combined({4, 3}); }
TEST_CASE("one split") { check_combined({1.5}); }
TEST_CASE("many") { check_combined({0.5, -1, 2, 1.25, -3, 0, 2.5, 1, 0.25}); }
TEST_CASE("an empty one among others") { check_combined({2, -kInfinity, 1, -kInfinity}); }
TEST_CASE("the first is empty") { check_combined({-kInfinity, -1, 0.5}); }
TEST_CASE("large LSE") { check_combined({1000, 998, 999.5}); }
TEST_CASE("very negative LSE") { check_combined({-1000, -1001, -1002}); }
TEST_CASE("all empty") { check_combined({-kInfinity, -kInfinity, -kInfinity}); }
