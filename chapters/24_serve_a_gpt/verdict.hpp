#pragma once
// Compares what a server answered with the same model in float64, without a cache.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chapters/20_train_a_gpt/training.hpp"
#include "common/break_demos.hpp"

namespace fa::ch24 {

// A request's answer, that is, the tokens starting at `prompt_length`, and the logits [answer,
// vocabulary] from which the server chose them.
struct Answer {
  int64_t number;
  std::span<const int32_t> tokens;
  int64_t prompt_length;
  std::span<const float> logits;
};

// The first token of a request whose two best logits differ by less than rounding can change.
struct Undecided {
  int64_t request, token;  // token counts from the answer's first
  double difference;
};

class Verdict {
 public:
  // `bound`: largest accepted error of a log-probability.
  Verdict(const ch20::TrainingState& trained, double bound);

  // Feeds the request's own tokens to plain attention in float64. Every log-probability that the
  // server had must be within the bound, and every token the most likely one, or one that is less
  // likely by at most twice the bound.
  void add(const Answer& answer);

  double bound() const { return bound_; }
  const RunResult& numbers() const { return numbers_; }  // passed if all of them are right
  const std::vector<Undecided>& undecided() const { return undecided_; }  // at most one a request
  const std::string& first_wrong() const { return first_wrong_; }

 private:
  const ch20::Config config_;
  const double bound_;
  const std::vector<double> weights_;
  ch20::Gpt<double> gpt_;
  RunResult numbers_;
  std::vector<Undecided> undecided_;
  std::string first_wrong_;
};

}  // namespace fa::ch24
