#pragma once
// Tiled attention in FlashAttention-2's order, where the outer loop runs over Q tiles, the inner
// loop over K and V tiles. Inputs and P have type T, and S, m, l and O are fp32. The allocated
// memory does not depend on the lengths.

#include <algorithm>
#include <cmath>
#include <span>

#include "broken.hpp"
#include "common/parallel.hpp"
#include "state.hpp"
#include "tile.hpp"

namespace ch02 {

struct Tiling {
  int64_t block_q = 64, block_kv = 64;
};

// The tensors of a run: q and o [batch, heads, q, dim], k and v [batch, heads, kv, dim], lse
// [batch, heads, q].
template <class T>
struct Tensors {
  fa::Shape shape;
  float scale;
  const T *q, *k, *v;
  float *o, *lse;
};

// The fast memory of one thread.
struct FastMemory {
  FastMemory(Tiling tiling, int64_t dim)
      : q(tiling.block_q * dim),
        k(dim * tiling.block_kv),
        v(tiling.block_kv * dim),
        s(tiling.block_q * tiling.block_kv),
        o(tiling.block_q * dim),
        m(tiling.block_q),
        l(tiling.block_q) {}

  static int64_t bytes(Tiling tiling, int64_t dim) {
    return static_cast<int64_t>(sizeof(float)) *
           (2 * tiling.block_q * dim + 2 * tiling.block_kv * dim +
            tiling.block_q * tiling.block_kv + 2 * tiling.block_q);
  }

  // Sets the state before the first key.
  template <class Breaks>
  void start(Breaks breaks) {
    std::fill(m.begin(), m.end(), breaks.has(kMaxStartsAtZero) ? 0 : -kInfinity<float>);
    std::fill(l.begin(), l.end(), 0.0f);
    std::fill(o.begin(), o.end(), 0.0f);
  }

  fa::counted_vector<float> q;     // [block_q, dim]
  fa::counted_vector<float> k;     // [dim, block_kv], transposed
  fa::counted_vector<float> v;     // [block_kv, dim]
  fa::counted_vector<float> s;     // [block_q, block_kv], S and then P
  fa::counted_vector<float> o;     // [block_q, dim], not yet divided by l
  fa::counted_vector<float> m, l;  // [block_q]
};

// One line of --trace, which is the state of one query after a tile.
struct TraceStep {
  float tile_max, rescale, m, l;  // m and l after the tile
  float largest_p = 0;
  int64_t kv_tile = 0;
};
struct Trace {
  int64_t row;                   // index over batch, head and query
  std::vector<TraceStep> steps;  // without skipped tiles

  void add(int64_t kv_tile, std::span<const float> p, TraceStep step) {
    step.largest_p = *std::max_element(p.begin(), p.end());
    step.kv_tile = kv_tile;
    steps.push_back(step);
  }
};

// [anchor: modify_scores]
// S = modifier(scale · S). This is after the product and before the maximum. Rows of K past the end
// are zeros, and a score of 0 would count like any other score, so these keys are hidden.
template <ScoreModifier Modifier, class Breaks>
void modify_scores(float* s, Range queries, Range keys, int64_t block_kv, float scale,
                   const Modifier& modifier, Breaks breaks) {
  const bool tile_relative = breaks.has(kTileRelativeMask);
  const int64_t first_query = tile_relative ? 0 : queries.begin;
  const int64_t first_key = tile_relative ? 0 : keys.begin;
  const int64_t visible = breaks.has(kUnmaskedTail) ? block_kv : keys.size();
  for (int64_t i = 0; i < queries.size(); ++i, s += block_kv) {
    for (int64_t j = 0; j < visible; ++j) {
      s[j] = modifier(scale * s[j], first_query + i, first_key + j);
    }
    std::fill(s + visible, s + block_kv, -kInfinity<float>);
    if (breaks.has(kFiniteSentinel)) std::replace(s, s + block_kv, -kInfinity<float>, -5e4f);
  }
}
// [/anchor: modify_scores]

// m' = max(m, rowmax S)
template <class Breaks>
float next_max(float m, float tile_max, Breaks breaks) {
  if (tile_max == -kInfinity<float>) {  // this query sees no key of this tile
    if (breaks.has(kMaxStuckAfterMaskedTile)) return std::max(m, 0.0f);
    return m;
  }
  if (breaks.has(kNoMax)) return 0;
  if (breaks.has(kNoRescale)) return tile_max;
  return std::max(m, tile_max);
}

// [anchor: update_row]
// Updates one row, so that m, l and o are rescaled to the new maximum, and S becomes P.
template <class T, class Breaks>
TraceStep update_row(std::span<float> s, float& m, float& l, std::span<float> o, Breaks breaks) {
  const float tile_max = *std::max_element(s.begin(), s.end());
  const float m_new = next_max(m, tile_max, breaks);                       // m' = max(m, rowmax S)
  const float rescale = breaks.has(kNoRescale) ? 1 : exp_minus(m, m_new);  // e^(m − m')
  l *= rescale;
  for (float& value : o) value *= rescale;  // O = e^(m − m') O
  float sum = 0;
  for (float& p : s) {
    p = rounded<T>(exp_minus(p, m_new));  // P = e^(S − m')
    sum += p;                             // sum the rounded p, because it multiplies V
    if (breaks.has(kSumIn16Bit)) l = rounded<T>(l + p);
  }
  if (!breaks.has(kSumIn16Bit)) l += sum;  // l' = e^(m − m') l + rowsum P
  m = m_new;
  return {tile_max, rescale, m, l};
}
// [/anchor: update_row]

// O = O / l for one tile of queries. A query that saw no key has m = −inf and gets o = 0, lse =
// −inf.
template <class T>
void store_tile(const Tensors<T>& tensors, int64_t head, Range queries, const FastMemory& fast,
                Counts& counts) {
  const int64_t dim = tensors.shape.dim;
  for (int64_t i = 0; i < queries.size(); ++i) {
    const int64_t row = head * tensors.shape.q + queries.begin + i;
    const bool sees_a_key = fast.m[i] != -kInfinity<float>;
    for (int64_t d = 0; d < dim; ++d) {
      tensors.o[row * dim + d] = sees_a_key ? rounded<T>(fast.o[i * dim + d] / fast.l[i]) : 0;
    }
    tensors.lse[row] = sees_a_key ? fast.m[i] + std::log(fast.l[i]) : -kInfinity<float>;
  }
  counts.bytes_written += queries.size() * (dim * static_cast<int64_t>(sizeof(T)) +
                                            static_cast<int64_t>(sizeof(float)));
}

// Computes softmax(Q K.T) V for one tile of queries of one head.
template <class T, ScoreModifier Modifier, class Breaks>
void attend_tile(const Tensors<T>& tensors, int64_t head, Range queries, Tiling tiling,
                 const Modifier& modifier, Breaks breaks, FastMemory& fast, Counts& counts,
                 Trace* trace) {
  const auto [block_q, block_kv] = tiling;
  const auto [batch, heads, len_q, len_kv, dim] = tensors.shape;
  const fa::View<const T> Q = fa::head(tensors.q, head, len_q, dim);
  const fa::View<const T> K = fa::head(tensors.k, head, len_kv, dim);
  const fa::View<const T> V = fa::head(tensors.v, head, len_kv, dim);
  const int64_t traced = trace ? trace->row - head * len_q - queries.begin : -1;
  // [anchor: tiled]
  load_tile(fast.q.data(), Q, queries, block_q, counts);
  fast.start(breaks);  // m = −inf, l = 0, O = 0

  for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, block_kv); ++kv_tile) {
    const Range keys = tile_range(kv_tile, block_kv, len_kv);
    if (modifier.hides(queries, keys)) {  // every score would be −inf
      ++counts.tiles_skipped;
      continue;
    }
    if (breaks.has(kStateResetPerBlock) && cuts(modifier, queries, keys)) fast.start(breaks);
    ++counts.tiles;
    load_tile_transposed(fast.k.data(), K, keys, block_kv, counts);
    load_tile(fast.v.data(), V, keys, block_kv, counts);

    // S = Q @ K.T, scaled and masked                [block_q, block_kv]
    multiply_query_key(fast.s.data(), fast.q.data(), fast.k.data(), block_q, block_kv, dim);
    modify_scores(fast.s.data(), queries, keys, block_kv, tensors.scale, modifier, breaks);

    // P = e^(S − m'); m, l and O move to m'
    for (int64_t i = 0; i < queries.size(); ++i) {
      const std::span P_row(fast.s.data() + i * block_kv, block_kv);
      const std::span O_row(fast.o.data() + i * dim, dim);
      const TraceStep step = update_row<T>(P_row, fast.m[i], fast.l[i], O_row, breaks);
      if (i == traced) trace->add(kv_tile, P_row, step);
    }

    // O += P @ V                                    [block_q, dim]
    multiply_add(fast.o.data(), fast.s.data(), fast.v.data(), queries.size(), block_kv, dim);
  }
  store_tile(tensors, head, queries, fast, counts);
  // [/anchor: tiled]
}

}  // namespace ch02
