#pragma once
// The reference gradients of every backward pass, for one head of K and V at a time.
//
//   P = exp(S − LSE)         S = scale · Q Kᵀ, masked       dV = Pᵀ dO
//   dP = dO Vᵀ               D_i = Σ_d dO_id O_id            dQ = scale · dS K
//   dS = P ∘ (dP − D)        with a softcap c, times 1 − tanh²(scale · q·k / c)
//                                                           dK = scale · dSᵀ Q
//
// Dao et al. 2022 (arXiv:2205.14135), appendix B. dK and dV of a head are sums over the heads of Q
// that share it. A masked key has P = dS = 0, and a fully masked query adds nothing. modify_score
// may add to a score or mask it, and its derivative is taken as 1.

#include <cstdint>
#include <span>
#include <vector>

#include "common/problem.hpp"

namespace fa {

// Bounds how far the rounding of the O in D, and therefore of D_i, may move a gradient, if each
// query moves independently. It adds up the norms ‖·‖ of the queries' contributions.
struct Lean {
  double squares = 0, fourth_powers = 0;

  void add(double norm);
  void include(const Lean& other);
  // Returns by how much two such moves may differ. With one query, or one that outweighs the
  // others, √2 times its norm; with n equal queries, √2 / √n times the sum of the norms.
  double spread() const;
};

// Maxima of the quantities that the gradients are sums of, for the bounds of a check. They are
// taken over the computed elements and over the queries.
struct GradientFacts {
  double largest_score = 0;  // score| of a visible key
  double largest_lse = 0;    // LSE| of a query that sees a key
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

// Returns the gradients of Σ dO ∘ O for some rows of Q, K and V, in float64 from the problem's
// rounded inputs. `kv_head` is batch * kv_heads + head. `queries` are rows of the `group` heads of
// Q that share it, numbered head in the group * Lq + query. `keys` are rows of K and V. `d_o` is
// [B,H,Lq,D].
GradientRows<double> reference_gradients(const Problem& problem, std::span<const float> d_o,
                                         int64_t kv_head, std::span<const int64_t> queries,
                                         std::span<const int64_t> keys);

// Returns the same gradients as plain attention's backward pass computes them with fp32 scores and
// sums. O (from which D comes), P and dS as operands of the products, and the results are rounded
// to the problem's dtype. A 16-bit kernel may differ from reference_gradients by twice as much as
// these.
GradientRows<float> plain_gradients(const Problem& problem, std::span<const float> d_o,
                                    int64_t kv_head, std::span<const int64_t> queries,
                                    std::span<const int64_t> keys);

// Returns the gradients of Σ dO ∘ O by the sinks, [H], from O and LSE of the forward pass. A sink
// has the weight P = exp(sink − LSE) and no value, so its dP is 0, and its gradient is −Σ P D over
// the rows of its head.
struct SinkGradient {
  double value = 0;
  double terms = 0;  // Σ P Σ_d |dO_d O_d|, for the bound of a check
};
std::vector<SinkGradient> sink_gradients(const Problem& problem, std::span<const float> o,
                                         std::span<const float> lse);

// Operations of both functions for all queries and keys of one head of K and V. `forward` is the
// forward pass of all its queries, which every row of dK and dV needs.
struct GradientCost {
  double forward, queries, keys;
  double all() const { return forward + queries + keys; }
};
GradientCost cost_of_gradients(const Problem& problem);

// All gradients in float64, where dQ has the shape of Q, dK and dV those of K and V.
struct Gradients {
  std::vector<double> dq, dk, dv;
};
Gradients reference_gradients(const Problem& problem, std::span<const float> d_o);

}  // namespace fa
