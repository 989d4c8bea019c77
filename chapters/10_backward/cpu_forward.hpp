#pragma once
// The tensors of one backward pass on the CPU, and the forward pass before it, which gives O,
// rounded to the element type, and LSE.

#include <cmath>

#include "common/tensor.hpp"
#include "cpu_fast_memory.hpp"

namespace fa::ch10 {

// Everything in slow memory. Q, dO, O and dQ are [batch, heads, q, dim]; K, V, dK and dV
// [batch, heads / group, kv, dim]; LSE and D [batch, heads, q].
template <class T>
struct Tensors {
  Shape shape;
  int64_t group;  // this many consecutive heads of Q share a head of K and V
  Real<T> scale;
  bool causal;
  const T *Q, *K, *V, *dO;
  T* O;
  Real<T>*LSE, *D;
  Real<T>*dQ, *dK, *dV;  // summed as Real<T>; the finished values are rounded to T

  int64_t kv_heads() const { return shape.batch * shape.heads / group; }
  // Returns how many leading keys of a tile a query sees.
  int64_t visible(int64_t query, Range keys) const {
    return std::clamp<int64_t>(visible_keys(shape, causal, query) - keys.begin, 0, keys.size());
  }
  bool hides(Range queries, Range keys) const { return visible(queries.end - 1, keys) == 0; }
};

// O = softmax(scale · Q @ K.T) @ V and LSE = log Σ e^S for one head of Q, by chapter 02's one-pass
// softmax, one query at a time. P is rounded where it multiplies V, as on the tensor cores.
template <class T>
void forward(const Tensors<T>& t, int64_t head, FastMemory<T>& fast) {
  using R = Real<T>;
  const auto [batch, heads, len_q, len_kv, dim] = t.shape;
  R *const q = fast.Q.data(), *const k = fast.K.data(), *const o = fast.dQ.data();  // one row
  for (int64_t query = 0; query < len_q; ++query) {
    const int64_t row = head * len_q + query, first_key = head / t.group * len_kv;
    for (int64_t d = 0; d < dim; ++d) q[d] = widened<T>(t.Q[row * dim + d]);
    R m = -kInfinity<R>, l = 0;
    std::fill_n(o, dim, R(0));
    const int64_t visible = t.visible(query, {0, len_kv});
    for (int64_t j = first_key; j < first_key + visible; ++j) {
      for (int64_t d = 0; d < dim; ++d) k[d] = widened<T>(t.K[j * dim + d]);
      const R s = t.scale * dot(q, k, dim);  // S = scale · Q @ K.T
      const R m_new = std::max(m, s);
      const R rescale = std::exp(m - m_new), p = std::exp(s - m_new);
      l = l * rescale + p;
      for (int64_t d = 0; d < dim; ++d) {
        o[d] = o[d] * rescale + rounded<T>(p) * widened<T>(t.V[j * dim + d]);  // O += P @ V
      }
      m = m_new;
    }
    for (int64_t d = 0; d < dim; ++d) {
      t.O[row * dim + d] = narrowed<T>(visible == 0 ? R(0) : o[d] / l);
    }
    t.LSE[row] = visible == 0 ? -kInfinity<R> : m + std::log(l);
  }
}

}  // namespace fa::ch10
