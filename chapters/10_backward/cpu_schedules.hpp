#pragma once
// The backward pass in tiles, in both loop orders. S and P are recomputed from Q, K and LSE, so no
// matrix [Lq, Lkv] is ever stored:
//
//   P  = e^(scale · Q @ K.T − LSE)          dP = dO @ V.T
//   D  = rowsum(dO ∘ O)                     dS = P ∘ (dP − D)
//   dV = P.T @ dO     dQ = scale · dS @ K     dK = scale · dS.T @ Q
//
// With queries outside (rows), a row of dS completes a row of dQ and adds to all of dK and dV, with
// one inner product and two outer ones. With keys outside (columns), a column of P and dS completes
// a row of dV and dK and adds to all of dQ, with two inner products and one outer one. Sums that
// are added to stay in slow memory.

#include "cpu_broken.hpp"
#include "cpu_fast_memory.hpp"
#include "cpu_forward.hpp"

namespace fa::ch10 {

// D_i = Σ_k dO_ik O_ik needs one row of dO and O. The same number is Σ_j P_ij dP_ij, by definition,
// but that needs every key of the row before its first dS, which is a separate pass over K and V.
enum class DFrom { o, p };

template <class T, class Breaks>
class Schedule {
  using R = Real<T>;
  using Tile = counted_vector<R>;

 public:
  Schedule(const Tensors<T>& tensors, Tiling tiling, DFrom d_from, Breaks breaks,
           FastMemory<T>& fast)
      : t(tensors),
        block_q(tiling.block_q),
        block_kv(tiling.block_kv),
        d_from(d_from),
        breaks(breaks),
        fast(fast) {}

  // With queries outside, dQ stays in fast memory until it is complete.
  void rows(int64_t kv_head) {
    set_zero(Tensor::dK, t.dK, kv_head, len_kv);
    set_zero(Tensor::dV, t.dV, kv_head, len_kv);
    // [anchor: rows]
    for (int64_t head = kv_head * t.group; head < (kv_head + 1) * t.group; ++head) {
      for (int64_t q_tile = 0; q_tile < tiles_in(len_q, block_q); ++q_tile) {
        const Range queries = tile_range(q_tile, block_q, len_q);
        load_queries(head, queries);
        make_d(head, queries);
        clear(fast.dQ);
        for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, block_kv); ++kv_tile) {
          const Range keys = tile_range(kv_tile, block_kv, len_kv);
          if (skips(queries, keys)) continue;
          load_keys(kv_head, keys);
          fast.load(Tensor::dK, fast.dK, t.dK, kv_head, len_kv, keys, block_kv);
          fast.load(Tensor::dV, fast.dV, t.dV, kv_head, len_kv, keys, block_kv);
          make_p_and_ds(head, queries, keys);
          add_outer(fast.dV, fast.P, fast.dO, block_kv, queries.size());  // dV += P.T @ dO
          add_outer(fast.dK, fast.dS, fast.Q, block_kv, queries.size());  // dK += dS.T @ Q
          add_inner(fast.dQ, fast.dS, fast.K, queries.size(), block_kv);  // dQ += dS @ K
          fast.store(Tensor::dK, fast.dK, t.dK, kv_head, len_kv, keys);
          fast.store(Tensor::dV, fast.dV, t.dV, kv_head, len_kv, keys);
        }
        if (t.hides(queries, {0, len_kv})) traffic.step("no key", head, queries, {0, 0});
        fast.store_result(Tensor::dQ, fast.dQ, t.dQ, head, len_q, queries, t.scale);
      }
    }
    // [/anchor: rows]
    finish(Tensor::dK, fast.dK, t.dK, kv_head, len_kv, block_kv, dk_scale());
    finish(Tensor::dV, fast.dV, t.dV, kv_head, len_kv, block_kv, 1);
  }

  // With keys outside, dK and dV stay in fast memory until they are complete, for all heads of a
  // group.
  void columns(int64_t kv_head) {
    const int64_t first_head = kv_head * t.group, end_head = first_head + t.group;
    for (int64_t head = first_head; head < end_head; ++head) {
      make_d_of_head(head);
      set_zero(Tensor::dQ, t.dQ, head, len_q);
    }
    if (d_from == DFrom::p) add_d_of_heads(kv_head);
    // [anchor: columns]
    for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, block_kv); ++kv_tile) {
      const Range keys = tile_range(kv_tile, block_kv, len_kv);
      load_keys(kv_head, keys);
      clear(fast.dK);
      clear(fast.dV);
      for (int64_t head = first_head; head < end_head; ++head) {
        for (int64_t q_tile = 0; q_tile < tiles_in(len_q, block_q); ++q_tile) {
          const Range queries = tile_range(q_tile, block_q, len_q);
          if (skips(queries, keys)) continue;
          load_queries(head, queries);
          fast.load_row(Tensor::D, fast.D, t.D, head, len_q, queries);
          fast.load(Tensor::dQ, fast.dQ, t.dQ, head, len_q, queries, block_q);
          make_p_and_ds(head, queries, keys);
          add_outer(fast.dV, fast.P, fast.dO, block_kv, queries.size());  // dV += P.T @ dO
          add_outer(fast.dK, fast.dS, fast.Q, block_kv, queries.size());  // dK += dS.T @ Q
          add_inner(fast.dQ, fast.dS, fast.K, queries.size(), block_kv);  // dQ += dS @ K
          store_dq(head, queries);
        }
      }
      fast.store_result(Tensor::dK, fast.dK, t.dK, kv_head, len_kv, keys, dk_scale());
      fast.store_result(Tensor::dV, fast.dV, t.dV, kv_head, len_kv, keys, 1);
    }
    // [/anchor: columns]
    for (int64_t head = first_head; head < end_head; ++head) {
      finish(Tensor::dQ, fast.dQ, t.dQ, head, len_q, block_q, t.scale);
    }
  }

 private:
  // ---- the work on a pair of tiles ----

  // [anchor: make_p]
  // S = scale · Q @ K.T, P = e^(S − LSE). Masked keys score −inf, and so do keys past the end,
  // because they were filled with zeros, and e^(0 − LSE) can be anything. A fully masked row has
  // LSE −inf, and −inf − (−inf) is NaN. With 0 in place of that LSE, all of its P is e^−inf = 0.
  void make_p(Range queries, Range keys) {
    multiply_transposed(fast.P.data(), fast.Q.data(), fast.K.data(), queries.size(), block_kv, dim);
    for (int64_t i = 0; i < queries.size(); ++i) {
      const int64_t visible =
          breaks.has(UNMASKED_BACKWARD) ? block_kv : t.visible(queries.begin + i, keys);
      const bool empty = fast.LSE[i] == -kInfinity<R> && !breaks.has(LSE_OF_EMPTY_ROW);
      const R lse = empty ? 0 : fast.LSE[i];
      for (int64_t j = 0; j < block_kv; ++j) {
        R& p = fast.P[i * block_kv + j];
        p = std::exp((j < visible ? t.scale * p : -kInfinity<R>)-lse);
      }
    }
    ++traffic.products;
  }
  // [/anchor: make_p]

  // dP = dO @ V.T, stored in dS
  void make_dp(Range queries) {
    multiply_transposed(fast.dS.data(), fast.dO.data(), fast.V.data(), queries.size(), block_kv,
                        dim);
    ++traffic.products;
  }

  // [anchor: make_ds]
  // dS = P ∘ (dP − D), from the unrounded P. Both are rounded, because they become operands
  // of products.
  void make_p_and_ds(int64_t head, Range queries, Range keys) {
    traffic.step("gradient", head, queries, keys);
    ++traffic.tiles;
    make_p(queries, keys);
    make_dp(queries);
    for (int64_t i = 0; i < queries.size(); ++i) {
      const R d = breaks.has(NO_D) ? 0 : fast.D[i];
      for (int64_t j = i * block_kv; j < (i + 1) * block_kv; ++j) {
        fast.dS[j] = rounded<T>(fast.P[j] * (fast.dS[j] - d));
        fast.P[j] = rounded<T>(fast.P[j]);
      }
    }
  }
  // [/anchor: make_ds]

  R dk_scale() const { return breaks.has(NO_SCALE_IN_DK) ? 1 : t.scale; }

  // ---- D, computed in three ways ----

  // [anchor: d]
  // D = rowsum(dO ∘ O)
  void row_dots(int64_t head, Range queries) {
    for (int64_t i = 0; i < queries.size(); ++i) {
      const T* const O_row = t.O + (head * len_q + queries.begin + i) * dim;
      fast.D[i] = 0;
      for (int64_t d = 0; d < dim; ++d) fast.D[i] += fast.dO[i * dim + d] * widened<T>(O_row[d]);
    }
    traffic.load(Tensor::O, queries.size() * dim * static_cast<int64_t>(sizeof(T)));
  }

  // D += rowsum(P ∘ dP) for one tile of keys
  void add_row_sums(int64_t head, Range queries, Range keys) {
    traffic.step("D", head, queries, keys);
    make_p(queries, keys);
    make_dp(queries);
    for (int64_t i = 0; i < queries.size(); ++i) {
      fast.D[i] += dot(fast.P.data() + i * block_kv, fast.dS.data() + i * block_kv, block_kv);
    }
  }
  // [/anchor: d]

  // For rows, computes D of one tile of queries, which stays in fast memory.
  void make_d(int64_t head, Range queries) {
    if (d_from == DFrom::o) return row_dots(head, queries);
    clear(fast.D);
    for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, block_kv); ++kv_tile) {
      const Range keys = tile_range(kv_tile, block_kv, len_kv);
      if (t.hides(queries, keys)) continue;
      load_keys(head / t.group, keys);
      add_row_sums(head, queries, keys);
    }
  }

  // For columns, computes D of every query of a head in slow memory, or zeros if it is summed
  // there.
  void make_d_of_head(int64_t head) {
    clear(fast.D);
    for (int64_t q_tile = 0; q_tile < tiles_in(len_q, block_q); ++q_tile) {
      const Range queries = tile_range(q_tile, block_q, len_q);
      if (d_from == DFrom::o) {
        fast.load(Tensor::dO, fast.dO, t.dO, head, len_q, queries, block_q);
        row_dots(head, queries);
      }
      traffic.step("D", head, queries, {0, 0});
      fast.store_row(Tensor::D, fast.D, t.D, head, len_q, queries);
    }
  }

  void add_d_of_heads(int64_t kv_head) {
    for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, block_kv); ++kv_tile) {
      const Range keys = tile_range(kv_tile, block_kv, len_kv);
      load_keys(kv_head, keys);
      for (int64_t head = kv_head * t.group; head < (kv_head + 1) * t.group; ++head) {
        for (int64_t q_tile = 0; q_tile < tiles_in(len_q, block_q); ++q_tile) {
          const Range queries = tile_range(q_tile, block_q, len_q);
          if (t.hides(queries, keys)) continue;
          load_queries(head, queries);
          fast.load_row(Tensor::D, fast.D, t.D, head, len_q, queries);
          add_row_sums(head, queries, keys);
          fast.store_row(Tensor::D, fast.D, t.D, head, len_q, queries);
        }
      }
    }
  }

  // ---- parts of the loops ----

  bool skips(Range queries, Range keys) {
    const bool hidden = t.hides(queries, keys);
    traffic.tiles_skipped += hidden;
    return hidden;
  }

  void add_inner(Tile& C, const Tile& A, const Tile& B, int64_t rows, int64_t depth) {
    ch10::add_inner(C.data(), A.data(), B.data(), rows, depth, dim);
    ++traffic.products;
  }
  void add_outer(Tile& C, const Tile& A, const Tile& B, int64_t rows, int64_t depth) {
    ch10::add_outer(C.data(), A.data(), B.data(), rows, depth, dim);
    ++traffic.products;
  }

  void load_queries(int64_t head, Range queries) {
    fast.load(Tensor::Q, fast.Q, t.Q, head, len_q, queries, block_q);
    fast.load(Tensor::dO, fast.dO, t.dO, head, len_q, queries, block_q);
    fast.load_row(Tensor::LSE, fast.LSE, t.LSE, head, len_q, queries);
  }
  void load_keys(int64_t kv_head, Range keys) {
    fast.load(Tensor::K, fast.K, t.K, kv_head, len_kv, keys, block_kv);
    fast.load(Tensor::V, fast.V, t.V, kv_head, len_kv, keys, block_kv);
  }
  void store_dq(int64_t head, Range queries) {
    if (breaks.has(BF16_DQ)) {
      for (R& value : fast.dQ) value = rounded<bf16>(static_cast<float>(value));
    }
    fast.store(Tensor::dQ, fast.dQ, t.dQ, head, len_q, queries);
  }

  void set_zero(Tensor name, R* tensor, int64_t head, int64_t length) {
    traffic.step("zero", head, {0, 0}, {0, 0});
    fast.store_zeros(name, tensor, head, length);
  }
  // Scales and rounds sums to which other tiles have added.
  void finish(Tensor name, Tile& tile, R* tensor, int64_t head, int64_t length, int64_t block,
              R factor) {
    for (int64_t index = 0; index < tiles_in(length, block); ++index) {
      const Range rows = tile_range(index, block, length);
      fast.load(name, tile, tensor, head, length, rows, block);
      traffic.step("finish", head, rows, {0, 0});
      fast.store_result(name, tile, tensor, head, length, rows, factor);
    }
  }

  const Tensors<T>& t;
  const int64_t block_q, block_kv;
  const DFrom d_from;
  const Breaks breaks;
  FastMemory<T>& fast;
  Traffic& traffic = fast.traffic;
  const int64_t len_q = t.shape.q, len_kv = t.shape.kv, dim = t.shape.dim;
};

}  // namespace fa::ch10
