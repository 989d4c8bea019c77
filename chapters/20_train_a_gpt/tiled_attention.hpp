#pragma once
// The same attention in tiles, with chapter 02's forward pass, which keeps the log-sum-exp of each
// row, and chapter 10's backward pass with keys in the outer loop, which recomputes P from it.
// Between the two passes it keeps one number per row.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/memory.hpp"
#include "common/parallel.hpp"
#include "heads.hpp"

namespace fa::ch20 {

template <class R, class Breaks>
class TiledAttention : public Attention<R> {
  static constexpr R kInfinity = std::numeric_limits<R>::infinity();

  struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };

  struct FastMemory {  // per thread, [block, block]
    explicit FastMemory(int64_t block) : P(block * block), dS(block * block) {}
    counted_vector<R> P, dS;
  };

 public:
  TiledAttention(const AttentionShape& shape, int64_t block, Breaks breaks)
      : shape_(shape),
        block_(std::min(block, shape.length)),
        breaks_(breaks),
        LSE_(heads() * shape.length),
        D_(heads() * shape.length) {
    const int threads = static_cast<int>(std::min<int64_t>(hardware_threads(), heads()));
    fast_.reserve(threads);  // not assign, whose temporary would be counted as well
    for (int i = 0; i < threads; ++i) fast_.emplace_back(block_);
  }

  void forward(Input<R> QKV, Matrix<R> O) override {
    parallel_for(heads(), std::ssize(fast_), [&](int64_t head, int thread) {
      for (int64_t begin = 0; begin < shape_.length; begin += block_) {
        attend(qkv_of(QKV, shape_, head), tile(begin), head, fast_[thread],
               head_of(O, shape_, head));
      }
    });
  }

  void backward(Input<R> QKV, Input<R> O, Input<R> dO, Matrix<R> dQKV) override {
    parallel_for(heads(), std::ssize(fast_), [&](int64_t head, int thread) {
      differentiate(qkv_of(QKV, shape_, head), head_of(O, shape_, head), head_of(dO, shape_, head),
                    head, fast_[thread], qkv_of(dQKV, shape_, head));
    });
  }

 private:
  // Computes one tile of queries with all keys that it sees.
  void attend(const Head<const R>& in, Range queries, int64_t head, FastMemory& fast, Matrix<R> O) {
    const Matrix<const R> Q = rows(in.Q, queries);
    const Matrix<R> O_tile = rows(O, queries);
    std::vector<R> m(queries.size(), -kInfinity), l(queries.size(), 0);
    clear(O_tile);
    for (int64_t begin = 0; begin < shape_.length; begin += block_) {
      const Range keys = tile(begin);
      if (hidden(queries, keys)) continue;
      const Matrix<R> P(fast.P.data(), queries.size(), keys.size());
      clear(P);
      add_inner<R>(P, Q, rows(in.K, keys), scale_);  // S = scale · Q @ K.T
      for (int64_t i = 0; i < P.rows; ++i) {
        const int64_t visible = visible_keys(i, queries, keys);
        std::fill(P.row(i) + visible, P.row(i) + P.cols, R(0));  // P of a masked key
        if (visible == 0) continue;
        const R tile_max = *std::max_element(P.row(i), P.row(i) + visible);
        const R m_new = breaks_.has(NO_RESCALE) ? tile_max : std::max(m[i], tile_max);
        const R rescale = breaks_.has(NO_RESCALE) ? 1 : std::exp(m[i] - m_new);
        for (int64_t d = 0; d < O_tile.cols; ++d) O_tile(i, d) *= rescale;
        l[i] = l[i] * rescale + exponentiate(P.row(i), visible, m_new);  // P = e^(S − m')
        m[i] = m_new;
      }
      add_product<R>(O_tile, P, rows(in.V, keys));  // O += P @ V
    }
    for (int64_t i = 0; i < O_tile.rows; ++i) {
      for (int64_t d = 0; d < O_tile.cols; ++d) O_tile(i, d) /= l[i];
      LSE_[head * shape_.length + queries.begin + i] = m[i] + std::log(l[i]);
    }
  }

  // Computes dQ, dK and dV of one head.
  void differentiate(const Head<const R>& in, Matrix<const R> O, Matrix<const R> dO, int64_t head,
                     FastMemory& fast, const Head<R>& out) {
    const R* const LSE = LSE_.data() + head * shape_.length;
    R* const D = D_.data() + head * shape_.length;
    for (const Matrix<R>& result : {out.Q, out.K, out.V}) clear(result);
    for (int64_t i = 0; i < O.rows; ++i) {
      D[i] = 0;
      for (int64_t d = 0; d < O.cols; ++d) D[i] += dO(i, d) * O(i, d);  // D = rowsum(dO ∘ O)
      if (breaks_.has(NO_D)) D[i] = 0;
    }
    for (int64_t key = 0; key < shape_.length; key += block_) {
      const Range keys = tile(key);
      for (int64_t query = 0; query < shape_.length; query += block_) {
        const Range queries = tile(query);
        if (hidden(queries, keys)) continue;
        const Matrix<R> P(fast.P.data(), queries.size(), keys.size());
        const Matrix<R> dS(fast.dS.data(), queries.size(), keys.size());
        const Matrix<const R> Q = rows(in.Q, queries), K = rows(in.K, keys);
        clear(P);
        clear(dS);
        add_inner<R>(P, Q, K, scale_);                          // S = scale · Q @ K.T
        add_inner<R>(dS, rows(dO, queries), rows(in.V, keys));  // dP = dO @ V.T
        for (int64_t i = 0; i < P.rows; ++i) {
          const int64_t visible = visible_keys(i, queries, keys);
          exponentiate(P.row(i), visible, LSE[query + i]);  // P = e^(S − LSE)
          std::fill(P.row(i) + visible, P.row(i) + P.cols, R(0));
          for (int64_t j = 0; j < P.cols; ++j) {
            dS(i, j) = P(i, j) * (dS(i, j) - D[query + i]);  // dS = P ∘ (dP − D)
          }
        }
        add_outer<R>(rows(out.V, keys), P, rows(dO, queries));  // dV += P.T @ dO
        add_outer<R>(rows(out.K, keys), dS, Q, dk_scale());     // dK += scale · dS.T @ Q
        add_product<R>(rows(out.Q, queries), dS, K, scale_);    // dQ += scale · dS @ K
      }
    }
  }

  // [anchor: mask]
  // Returns how many leading keys of a tile the i-th query of a tile of queries sees.
  int64_t visible_keys(int64_t i, Range queries, Range keys) const {
    int64_t last = queries.begin + i;  // the key that is aligned with the query
    if (breaks_.has(MASK_OFF_BY_ONE)) ++last;
    if (breaks_.has(TILE_RELATIVE_MASK)) last = keys.begin + i;
    return std::clamp<int64_t>(last - keys.begin + 1, 0, keys.size());
  }
  // [/anchor: mask]
  bool hidden(Range queries, Range keys) const {
    return keys.begin > queries.end - 1 + breaks_.has(MASK_OFF_BY_ONE);
  }
  R dk_scale() const { return breaks_.has(NO_SCALE_IN_DK) ? R(1) : scale_; }

  Range tile(int64_t begin) const { return {begin, std::min(begin + block_, shape_.length)}; }
  template <class T>
  static Matrix<T> rows(Matrix<T> matrix, Range range) {
    return matrix.row_block(range.begin, range.size());
  }
  int64_t heads() const { return shape_.batch * shape_.heads; }

  const AttentionShape shape_;
  const int64_t block_;
  const Breaks breaks_;
  const R scale_ = 1 / std::sqrt(static_cast<R>(shape_.dim));
  counted_vector<R> LSE_, D_;  // [batch, heads, length]
  std::vector<FastMemory> fast_;
};

}  // namespace fa::ch20
