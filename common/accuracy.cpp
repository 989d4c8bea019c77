#include "common/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/check.hpp"
#include "common/json_report.hpp"
#include "common/parallel.hpp"
#include "common/reference.hpp"
#include "common/scores.hpp"
#include "common/text.hpp"

namespace fa {
namespace {

// |x_r|² of each row.
std::vector<double> squared_norms(std::span<const float> values, int64_t dim) {
  std::vector<double> norms(values.size() / dim);
  for (size_t i = 0; i < values.size(); ++i) norms[i / dim] += double(values[i]) * values[i];
  return norms;
}

// Row by row |rounded − exact|², without what all rows of a head have in common.
std::vector<double> squared_changes(std::span<const float> exact, std::span<const float> rounded,
                                    int64_t rows, int64_t dim, bool without_mean) {
  std::vector<double> changes(exact.size() / dim), mean(dim);
  for (int64_t start = 0; start < std::ssize(exact); start += rows * dim) {
    std::fill(mean.begin(), mean.end(), 0.0);
    const auto change = [&](int64_t i) { return double(rounded[start + i]) - exact[start + i]; };
    if (without_mean) {
      for (int64_t i = 0; i < rows * dim; ++i) mean[i % dim] += change(i) / double(rows);
    }
    for (int64_t i = 0; i < rows * dim; ++i) {
      const double rest = change(i) - mean[i % dim];
      changes[(start + i) / dim] += rest * rest;
    }
  }
  return changes;
}

// The terms of one row in the sums from which the measures are computed.
struct Sums {
  double squared_error = 0, error = 0, product = 0, squared = 0, squared_got = 0, size = 0,
         expected = 0, variance = 0;
};

}  // namespace

Accuracy accuracy_of(const Problem& asked, const Problem& rounded, std::span<const float> o,
                     uint64_t seed) {
  const Shape& s = asked.shape;
  const double cost = 12.0 * static_cast<double>(s.kv) * static_cast<double>(s.dim);
  const int64_t affordable = std::max<int64_t>(64, static_cast<int64_t>(kSampleBudget / cost));
  const std::vector<int64_t> rows = spread_sample(s.rows(), affordable, seed);
  const std::vector<double> q = squared_norms(asked.q, s.dim), k = squared_norms(rounded.k, s.dim);
  const std::vector<double> q_change = squared_changes(asked.q, rounded.q, s.q, s.dim, false);
  const std::vector<double> k_change = squared_changes(asked.k, rounded.k, s.kv, s.dim, true);
  const std::vector<double> v_change = squared_changes(asked.v, rounded.v, s.kv, s.dim, true);

  std::vector<Sums> sums(rows.size());
  parallel_for(std::ssize(rows), 0, [&](int64_t i, int) {
    const int64_t batch_head = rows[i] / s.q, kv_head = batch_head / asked.group;
    std::vector<double> exact(s.dim);
    const RowFacts facts = reference_row(asked, batch_head, rows[i] % s.q, exact);
    Sums& sum = sums[i];
    for (int64_t d = 0; d < s.dim; ++d) {
      const double got = o[rows[i] * s.dim + d], error = got - exact[d];
      sum.squared_error += error * error;
      sum.error += std::abs(error);
      sum.product += got * exact[d];
      sum.squared += exact[d] * exact[d];
      sum.squared_got += got * got;
      sum.size += std::abs(exact[d]);
    }
    const QueryScores<double> scores(asked, batch_head, rows[i] % s.q);
    for (int64_t key = scores.keys().begin; key < scores.keys().end; ++key) {
      const double p = std::exp(scores(key).value - facts.lse);
      const int64_t row = kv_head * s.kv + key;
      const double variance = asked.scale * asked.scale *
                              (q_change[rows[i]] * k[row] + k_change[row] * q[rows[i]]) /
                              static_cast<double>(s.dim);
      double distance = 0;
      for (int64_t d = 0; d < s.dim; ++d) {
        const double away = asked.v[row * s.dim + d] - exact[d];
        distance += away * away;
      }
      sum.expected += p * p * (variance * distance + v_change[row]);
      sum.variance += p * variance;
    }
  });

  Sums all;
  for (const Sums& one : sums) {
    all.squared_error += one.squared_error;
    all.error += one.error;
    all.product += one.product;
    all.squared += one.squared;
    all.squared_got += one.squared_got;
    all.size += one.size;
    all.expected += one.expected;
    all.variance += one.variance;
  }
  const double count = static_cast<double>(std::ssize(rows) * s.dim);
  // Two answers that are all zeros have no angle, and no error.
  const bool equal = all.error == 0;
  const double norms = std::sqrt(all.squared * all.squared_got);
  return {.rmse = std::sqrt(all.squared_error / count),
          .cosine = equal        ? 1
                    : norms == 0 ? 0
                                 : all.product / norms,
          .relative_l1 = equal ? 0 : all.error / all.size,
          .rmse_expected = std::sqrt(all.expected / count),
          .score_error = std::sqrt(all.variance / static_cast<double>(std::ssize(rows))),
          .rows = std::ssize(rows)};
}

Verdict check_rounding(const Tensors& asked, const Problem& rounded, uint64_t seed) {
  Verdict verdict = check_forward(rounded, asked.o, asked.lse, seed);
  const Accuracy accuracy = accuracy_of(asked, rounded, asked.o, seed);
  const nlohmann::json& bound = (*verdict.report)["rms_bound"];  // null if it is not a number
  const bool as_expected = accuracy.passed(bound.is_number() ? bound.get<double>() : std::nan(""));
  verdict.text +=
      text("\nagainst the inputs before rounding:\nrms error %.2e, expected %.2e, cosine %.6f",
           unsigned_nan(accuracy.rmse), accuracy.rmse_expected, unsigned_nan(accuracy.cosine));
  const std::string passed = "passed";
  const bool kernel_is_right = verdict.passed;
  if (kernel_is_right && !as_expected)  // the verdict's first word is that on all
    verdict.text.replace(0, passed.size(), "INCONCLUSIVE");
  if (!accuracy.conclusive()) {
    verdict.text +=
        text("\nrounding moves a score by %.1f: by more than 1 nothing is left of softmax",
             accuracy.score_error);
  } else if (!as_expected && kernel_is_right) {
    verdict.text += "\nO is right for the rounded inputs; the errors of this rounding add up";
  } else if (!as_expected) {
    verdict.text += "\nmore than twice what such rounding does";
  }
  verdict.passed = verdict.passed && as_expected;
  (*verdict.report)["passed"] = verdict.passed;
  (*verdict.report)["inconclusive"] = (*verdict.report)["inconclusive"].get<bool>() ||
                                      !accuracy.conclusive() || (kernel_is_right && !as_expected);
  (*verdict.report)["score_error"] = json_number(accuracy.score_error);
  (*verdict.report)["rmse"] = json_number(accuracy.rmse);
  (*verdict.report)["rmse_expected"] = json_number(accuracy.rmse_expected);
  (*verdict.report)["cosine"] = json_number(accuracy.cosine);
  (*verdict.report)["relative_l1"] = json_number(accuracy.relative_l1);
  return verdict;
}

}  // namespace fa
