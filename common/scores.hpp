#pragma once
// The scores of one query after scale, softcap and ALiBi. The references of the forward pass and of
// the gradients compute them in float64, and their yardsticks in fp32.

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/problem.hpp"

namespace fa {

// Returns Σ a[i]·b[i] in Real, in eight interleaved partial sums, because compilers may not reorder
// one long sum.
template <class Real>
Real dot(const float* a, const float* b, int64_t count) {
  Real sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += Real(a[i + lane]) * Real(b[i + lane]);
  }
  for (; i < count; ++i) sums[0] += Real(a[i]) * Real(b[i]);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// A score and its derivative with respect to scale · q·k.
template <class Real>
struct Score {
  Real value;           // −inf if modify_score masks the key
  Real derivative = 1;  // 1 − tanh² with a softcap, otherwise 1
};

// The scores of query `query` in head batch_head = batch * heads + head.
template <class Real>
class QueryScores {
 public:
  QueryScores(const Problem& problem, int64_t batch_head, int64_t query)
      : problem_(&problem),
        q_row_(problem.q.data() + (batch_head * problem.shape.q + query) * problem.shape.dim),
        k_(head(problem.k.data(), batch_head / problem.group, problem.shape.kv, problem.shape.dim)),
        keys_(problem.keys_of(batch_head / problem.shape.heads, query)),
        head_(batch_head % problem.shape.heads),
        query_(query),
        word_(problem.tree.empty()
                  ? 0
                  : problem.tree[batch_head / problem.shape.heads * problem.shape.q + query]),
        slope_(problem.alibi ? Real(alibi_slope(head_, problem.shape.heads)) : Real(0)) {}

  const Keys& keys() const { return keys_; }
  bool sees(int64_t key) const { return keys_.begin <= key && key < keys_.end; }

  // Returns the score of a key in keys().
  Score<Real> operator()(int64_t key) const {
    const Problem& problem = *problem_;
    if (!problem.tree.empty()) {
      const int64_t token = key - (keys_.diagonal - query_);
      if (token >= 0 && (word_ >> token & 1) == 0) return {-std::numeric_limits<Real>::infinity()};
    }
    Score<Real> s{Real(problem.scale) * dot<Real>(q_row_, k_.row(key), problem.shape.dim)};
    if (problem.softcap > 0) {
      const Real t = std::tanh(s.value / Real(problem.softcap));
      s = {Real(problem.softcap) * t, 1 - t * t};
    }
    if (problem.alibi) s.value -= slope_ * Real(std::abs(key - keys_.diagonal));
    if (problem.modify_score) {
      s.value = Real(problem.modify_score(s.value, head_, query_, key));
    }
    return s;
  }

 private:
  const Problem* problem_;
  const float* q_row_;
  View<const float> k_;
  Keys keys_;
  int64_t head_, query_;
  uint64_t word_;  // of the query, if there is a tree
  Real slope_;
};

}  // namespace fa
