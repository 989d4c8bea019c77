#include "common/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/parallel.hpp"
#include "common/reference.hpp"
#include "common/scores.hpp"

namespace fa {
namespace {

RowFacts forward_row(const Problem& problem, int64_t batch_head, int64_t query,
                     std::span<double> o) {
  return reference_row(problem, batch_head, query, o);
}
RowFacts forward_row(const Problem& problem, int64_t batch_head, int64_t query,
                     std::span<float> o) {
  return plain_row(problem, batch_head, query, o);
}

// The gradients of one head of K and V and the heads of Q that share it. Round is applied to P, dS
// and the results.
template <class Real, class Round>
class Backward {
 public:
  Backward(const Problem& problem, const float* d_o, int64_t kv_head, Round round)
      : problem_(problem),
        rows_(problem.group * problem.shape.q),
        dim_(problem.shape.dim),
        first_head_(kv_head * problem.group),
        Q_(head(problem.q.data(), kv_head, rows_, dim_)),
        dO_(head(d_o, kv_head, rows_, dim_)),
        K_(head(problem.k.data(), kv_head, problem.shape.kv, dim_)),
        V_(head(problem.v.data(), kv_head, problem.shape.kv, dim_)),
        round_(round),
        lse_(rows_, -std::numeric_limits<Real>::infinity()),
        d_(rows_),
        d_terms_(rows_),
        k_norms_(problem.shape.kv) {
    for (int64_t key = 0; key < problem.shape.kv; ++key) {
      k_norms_[key] = std::sqrt(dot<double>(K_.row(key), K_.row(key), dim_));
    }
    scores_.reserve(rows_);
    for (int64_t row = 0; row < rows_; ++row) {
      scores_.emplace_back(problem, first_head_ + row / problem.shape.q, row % problem.shape.q);
    }
  }

  // Computes LSE and D of a row, which its gradients need.
  void prepare(int64_t row) {
    thread_local std::vector<Real> o;
    o.resize(dim_);
    const int64_t len_q = problem_.shape.q;
    const RowFacts facts =
        forward_row(problem_, first_head_ + row / len_q, row % len_q, std::span<Real>(o));
    lse_[row] = static_cast<Real>(facts.lse);
    Real sum = 0;
    double squares = 0;
    for (int64_t d = 0; d < dim_; ++d) {
      const Real term = Real(dO_(row, d)) * o[d];
      sum += term;
      squares += double(term) * double(term);
    }
    d_[row] = sum;
    d_terms_[row] = std::sqrt(squares);
  }

  bool sees(int64_t row) const { return lse_[row] != -std::numeric_limits<Real>::infinity(); }

  // dQ = scale · Σ over keys of dS K. Returns true if the row sees a key.
  bool query(int64_t row, Real* dq, GradientFacts& facts) const {
    const Keys& keys = scores_[row].keys();
    bool seen = false;
    double sum_ds = 0, largest_p = 0, p_squares = 0, pdp_squares = 0, k_norm = 0;
    for (int64_t key = keys.begin; sees(row) && key < keys.end; ++key) {
      const Pair pair = pair_of(row, key, facts);
      const double p = double(pair.p), pdp = p * double(pair.dp);
      seen |= pair.visible;
      largest_p = std::max(largest_p, p);
      p_squares += p * p;
      pdp_squares += pdp * pdp;
      k_norm += p * k_norms_[key];
      sum_ds += std::abs(double(pair.ds));
      add(dq, round_(pair.ds), K_.row(key));
    }
    facts.row_ds = std::max(facts.row_ds, sum_ds);
    if (seen) {
      // O and P are rounded by half an ulp(1), but O by at most what the other keys add to the
      // largest weight.
      const double half_ulp = unit_in_last_place(problem_.dtype, 1.0) / 2;
      const double d_error = std::min(half_ulp, std::max(0.0, 1 - largest_p)) *
                             (d_terms_[row] + std::sqrt(pdp_squares));
      const double q_norm = std::sqrt(dot<double>(Q_.row(row), Q_.row(row), dim_));
      facts.dq.add(std::abs(problem_.scale) * d_error * k_norm);
      facts.dk.add(std::abs(problem_.scale) * d_error * q_norm * std::sqrt(p_squares));
    }
    for (int64_t d = 0; d < dim_; ++d) dq[d] = round_(Real(problem_.scale) * dq[d]);
    return seen;
  }

  // dV = Σ over queries of P dO and dK = scale · Σ of dS Q. Returns true if a query sees the key.
  bool key(int64_t key, Real* dk, Real* dv, GradientFacts& facts) const {
    bool seen = false;
    double sum_ds = 0, sum_p = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      if (!sees(row) || !scores_[row].sees(key)) continue;
      const Pair pair = pair_of(row, key, facts);
      seen |= pair.visible;
      sum_ds += std::abs(double(pair.ds));
      sum_p += double(pair.p);
      add(dv, round_(pair.p), dO_.row(row));
      add(dk, round_(pair.ds), Q_.row(row));
    }
    facts.column_ds = std::max(facts.column_ds, sum_ds);
    facts.column_p = std::max(facts.column_p, sum_p);
    for (int64_t d = 0; d < dim_; ++d) {
      dk[d] = round_(Real(problem_.scale) * dk[d]);
      dv[d] = round_(dv[d]);
    }
    return seen;
  }

 private:
  struct Pair {  // values of one query and one key
    Real p = 0, dp = 0, ds = 0;
    bool visible = false;
  };

  Pair pair_of(int64_t row, int64_t key, GradientFacts& facts) const {
    const Score<Real> s = scores_[row](key);
    if (s.value == -std::numeric_limits<Real>::infinity()) return {};
    const Real p = std::exp(s.value - lse_[row]);
    const Real dp = dot<Real>(dO_.row(row), V_.row(key), dim_);
    facts.largest_score = std::max(facts.largest_score, std::abs(double(s.value)));
    facts.largest_lse = std::max(facts.largest_lse, std::abs(double(lse_[row])));
    facts.largest_dp = std::max(facts.largest_dp, std::abs(double(dp)) + std::abs(double(d_[row])));
    return {p, dp, p * (dp - d_[row]) * s.derivative, true};
  }

  void add(Real* sum, Real factor, const float* row) const {
    for (int64_t d = 0; d < dim_; ++d) sum[d] += factor * Real(row[d]);
  }

  const Problem& problem_;
  int64_t rows_, dim_, first_head_;
  View<const float> Q_, dO_, K_, V_;
  Round round_;
  std::vector<QueryScores<Real>> scores_;
  std::vector<Real> lse_, d_;
  std::vector<double> d_terms_;  // √Σ (dO O)²
  std::vector<double> k_norms_;
};

template <class Real, class Round>
GradientRows<Real> gradient_rows(const Problem& problem, std::span<const float> d_o,
                                 int64_t kv_head, std::span<const int64_t> queries,
                                 std::span<const int64_t> keys, Round round) {
  const int64_t dim = problem.shape.dim, rows = problem.group * problem.shape.q;
  const int64_t num_queries = static_cast<int64_t>(queries.size());
  const int64_t num_keys = static_cast<int64_t>(keys.size());
  Backward<Real, Round> backward(problem, d_o.data(), kv_head, round);
  if (num_keys > 0) {  // every query may see a key
    parallel_for(rows, 0, [&](int64_t row, int) { backward.prepare(row); });
  } else {
    parallel_for(num_queries, 0, [&](int64_t i, int) { backward.prepare(queries[i]); });
  }

  GradientRows<Real> result;
  result.dq.resize(num_queries * dim);
  result.dk.resize(num_keys * dim);
  result.dv.resize(num_keys * dim);
  std::vector<GradientFacts> facts(num_queries + num_keys);
  std::vector<char> seen(num_queries + num_keys);  // not bits, because threads write to it
  parallel_for(num_queries + num_keys, 0, [&](int64_t i, int) {
    const int64_t j = i - num_queries;
    seen[i] = j < 0 ? backward.query(queries[i], result.dq.data() + i * dim, facts[i])
                    : backward.key(keys[j], result.dk.data() + j * dim, result.dv.data() + j * dim,
                                   facts[i]);
  });
  result.query_sees.assign(seen.begin(), seen.begin() + num_queries);
  result.key_is_seen.assign(seen.begin() + num_queries, seen.end());
  for (const GradientFacts& some : facts) result.facts.include(some);
  return result;
}

std::vector<int64_t> all(int64_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

void Lean::add(double norm) {
  squares += norm * norm;
  fourth_powers += norm * norm * norm * norm;
}

void Lean::include(const Lean& other) {
  squares += other.squares;
  fourth_powers += other.fourth_powers;
}

double Lean::spread() const { return squares > 0 ? std::sqrt(2 * fourth_powers / squares) : 0; }

void GradientFacts::include(const GradientFacts& other) {
  largest_score = std::max(largest_score, other.largest_score);
  largest_lse = std::max(largest_lse, other.largest_lse);
  largest_dp = std::max(largest_dp, other.largest_dp);
  row_ds = std::max(row_ds, other.row_ds);
  column_ds = std::max(column_ds, other.column_ds);
  column_p = std::max(column_p, other.column_p);
  dq.include(other.dq);
  dk.include(other.dk);
}

GradientRows<double> reference_gradients(const Problem& problem, std::span<const float> d_o,
                                         int64_t kv_head, std::span<const int64_t> queries,
                                         std::span<const int64_t> keys) {
  return gradient_rows<double>(problem, d_o, kv_head, queries, keys, [](double x) { return x; });
}

GradientRows<float> plain_gradients(const Problem& problem, std::span<const float> d_o,
                                    int64_t kv_head, std::span<const int64_t> queries,
                                    std::span<const int64_t> keys) {
  return gradient_rows<float>(problem, d_o, kv_head, queries, keys,
                              [&](float x) { return round_to(problem.dtype, x); });
}

std::vector<SinkGradient> sink_gradients(const Problem& problem, std::span<const float> o,
                                         std::span<const float> lse) {
  const Shape& shape = problem.shape;
  std::vector<SinkGradient> gradients(problem.sinks.size());
  for (int64_t row = 0; row < shape.rows() && !gradients.empty(); ++row) {
    const int64_t head = row / shape.q % shape.heads;
    const double sink = problem.sinks[head];
    const double p = std::isinf(sink) ? 0 : std::exp(sink - double(lse[row]));
    double d = 0, terms = 0;
    for (int64_t i = row * shape.dim; i < (row + 1) * shape.dim; ++i) {
      const double term = double(problem.d_o[i]) * double(o[i]);
      d += term;
      terms += std::abs(term);
    }
    gradients[head].value -= p * d;
    gradients[head].terms += p * terms;
  }
  return gradients;
}

GradientCost cost_of_gradients(const Problem& problem) {
  double visible = 0;
  for (int64_t query = 0; query < problem.shape.q; ++query) {
    const Keys keys = problem.keys_of(0, query);
    visible += static_cast<double>(std::max<int64_t>(0, keys.end - keys.begin));
  }
  // Products of 2 · dim operations per pair, in two types: Q Kᵀ and P V; Q Kᵀ, dO Vᵀ and dS K; Q
  // Kᵀ, dO Vᵀ, Pᵀ dO and dSᵀ Q.
  const double product = 4.0 * visible * static_cast<double>(problem.group * problem.shape.dim);
  return {2 * product, 3 * product, 4 * product};
}

Gradients reference_gradients(const Problem& problem, std::span<const float> d_o) {
  const Shape& shape = problem.shape;
  const std::vector<int64_t> queries = all(problem.group * shape.q), keys = all(shape.kv);
  Gradients whole;
  for (int64_t kv_head = 0; kv_head < shape.batch * problem.kv_heads(); ++kv_head) {
    const GradientRows<double> part = reference_gradients(problem, d_o, kv_head, queries, keys);
    whole.dq.insert(whole.dq.end(), part.dq.begin(), part.dq.end());
    whole.dk.insert(whole.dk.end(), part.dk.begin(), part.dk.end());
    whole.dv.insert(whole.dv.end(), part.dv.begin(), part.dv.end());
  }
  return whole;
}

}  // namespace fa
