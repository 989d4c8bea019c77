#pragma once
// The gradients that every backward pass is held against, for one head of K and V at a time.
//
//   P = exp(S − LSE)         S = scale · Q Kᵀ, masked       dV = Pᵀ dO
//   dP = dO Vᵀ               D_i = Σ_d dO_id O_id            dQ = scale · dS K
//   dS = P ∘ (dP − D)        under a softcap c times 1 − tanh²(scale · q·k / c)
//                                                           dK = scale · dSᵀ Q
//
// Dao et al. 2022 (arXiv:2205.14135), appendix B. The heads of Q that share one of K and V add up
// in its dK and dV. A key that a query does not see has P = dS = 0, and a query that sees none adds
// nothing. modify_score may add to a score or hide it: its derivative is taken as 1.

#include <cstdint>
#include <span>
#include <vector>

#include "common/problem.hpp"

namespace fa {

// How far a gradient may be moved by what rounds the O in D, and with it D_i, in queries of which
// each moves by itself: ‖·‖ of what query i moves, added up.
struct Lean {
  double squares = 0, fourth_powers = 0;

  void add(double norm);
  void include(const Lean& other);
  // By how much two such moves may differ. With one query, or one that outweighs the others, √2 of
  // its own; with n alike, 1/√n of √2 of the ‖·‖ of all.
  double spread() const;
};

// Sizes of what the gradients are sums of, for the bounds of a check: maxima over what was
// computed, and over queries.
struct GradientFacts {
  double largest_score = 0;  // |score| of a visible key
  double largest_lse = 0;    // |LSE| of a query that sees a key
  double largest_dp = 0;     // |dP| + |D|
  double row_ds = 0;         // Σ |dS| over the keys of a query
  double column_ds = 0;      // Σ |dS| over the queries of a key
  double column_p = 0;       // Σ P over the queries of a key
  Lean dq, dk;

  void include(const GradientFacts& other);
};

template <class Real>
struct GradientRows {
  std::vector<Real> dq;      // [queries.size(), dim]
  std::vector<Real> dk, dv;  // [keys.size(), dim]
  std::vector<bool> query_sees, key_is_seen;
  GradientFacts facts;
};

// The gradients of Σ dO ∘ O by some rows of Q, K and V, in float64 from the problem's rounded
// inputs. `kv_head` is batch * kv_heads + head; `queries` are rows of the `group` heads of Q that
// share it, head in the group * Lq + query; `keys` are rows of K and V. `d_o` is [B,H,Lq,D].
GradientRows<double> reference_gradients(const Problem& problem, std::span<const float> d_o,
                                         int64_t kv_head, std::span<const int64_t> queries,
                                         std::span<const int64_t> keys);

// The same as plain attention's backward pass computes it with fp32 scores and sums; rounded to the
// problem's dtype are O (from which D comes), P and dS as operands of the products, and the
// results. Its distance to reference_gradients, twice, is what a 16-bit kernel is allowed to have.
GradientRows<float> plain_gradients(const Problem& problem, std::span<const float> d_o,
                                    int64_t kv_head, std::span<const int64_t> queries,
                                    std::span<const int64_t> keys);

// Operations of both for all queries and keys of one head of K and V, and of them those for the
// forward pass of all its queries, without which no row of dK or dV can be had.
struct GradientCost {
  double forward, queries, keys;
  double all() const { return forward + queries + keys; }
};
GradientCost cost_of_gradients(const Problem& problem);

// dQ like Q, dK and dV like K and V: whole, in float64.
struct Gradients {
  std::vector<double> dq, dk, dv;
};
Gradients reference_gradients(const Problem& problem, std::span<const float> d_o);

}  // namespace fa
