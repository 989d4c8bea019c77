#pragma once
// The backward pass as in the formulas, in seven passes, with S, P, dP and dS of all heads in slow
// memory between them. D uses its definition, rowsum(P ∘ dP), because the whole rows are available.

#include "cpu_fast_memory.hpp"
#include "cpu_forward.hpp"

namespace fa::ch10 {

template <class T>
class Naive {
  using R = Real<T>;
  using Tile = counted_vector<R>;
  using Matrices = counted_vector<R>;  // [batch, heads, q, kv]

 public:
  static int64_t matrix_bytes(const Shape& shape) {
    return 4 * shape.rows() * shape.kv * static_cast<int64_t>(sizeof(R));
  }

  explicit Naive(const Tensors<T>& tensors) : t(tensors) {
    for (Matrices* one : {&S, &P, &dP, &dS}) one->resize(t.shape.rows() * len_kv);
  }

  // Processes one head of K and V, with the heads of Q that share it.
  void run(int64_t kv_head, Tiling tiling, FastMemory<T>& fast) {
    for (int64_t head = kv_head * t.group; head < (kv_head + 1) * t.group; ++head) {
      product_transposed(head, tiling, fast, {Tensor::Q, t.Q}, {Tensor::K, t.K}, Tensor::S, S);
      weights(head, fast);
      product_transposed(head, tiling, fast, {Tensor::dO, t.dO}, {Tensor::V, t.V}, Tensor::dP, dP);
      gradient_of_scores(head, fast);
      gradient_of_queries(head, tiling, fast);
    }
    // dV = P.T @ dO, dK = scale · dS.T @ Q
    product_outer(kv_head, tiling, fast, Tensor::P, P, {Tensor::dO, t.dO}, Tensor::dV, t.dV, 1);
    product_outer(kv_head, tiling, fast, Tensor::dS, dS, {Tensor::Q, t.Q}, Tensor::dK, t.dK,
                  t.scale);
  }

 private:
  struct Operand {
    Tensor name;
    const T* values;
  };

  // C = A @ B.T for one head      [q, kv] = [q, dim] @ [kv, dim].T
  void product_transposed(int64_t head, Tiling tiling, FastMemory<T>& fast, Operand A, Operand B,
                          Tensor name, Matrices& C) {
    const auto [block_q, block_kv] = tiling;
    for (int64_t q_tile = 0; q_tile < tiles_in(len_q, block_q); ++q_tile) {
      const Range queries = tile_range(q_tile, block_q, len_q);
      fast.load(A.name, fast.Q, A.values, head, len_q, queries, block_q);
      for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, block_kv); ++kv_tile) {
        const Range keys = tile_range(kv_tile, block_kv, len_kv);
        fast.load(B.name, fast.K, B.values, head / t.group, len_kv, keys, block_kv);
        multiply_transposed(fast.P.data(), fast.Q.data(), fast.K.data(), queries.size(), block_kv,
                            dim);
        ++fast.traffic.products;
        for (int64_t i = 0; i < queries.size(); ++i) {
          std::copy_n(fast.P.begin() + i * block_kv, keys.size(),
                      row(C, head, queries.begin + i) + keys.begin);
        }
        fast.traffic.store(name, queries.size() * keys.size() * real_bytes);
      }
    }
  }

  // P = e^(scale · S − LSE), and 0 for a masked key
  void weights(int64_t head, FastMemory<T>& fast) {
    for (int64_t query = 0; query < len_q; ++query) {
      const R* const S_row = row(S, head, query);
      const R lse = t.LSE[head * len_q + query];
      const int64_t visible = t.visible(query, {0, len_kv});
      for (int64_t j = 0; j < len_kv; ++j) {
        row(P, head, query)[j] = j < visible ? std::exp(t.scale * S_row[j] - lse) : 0;
      }
    }
    fast.traffic.load(Tensor::S, len_q * len_kv * real_bytes);
    fast.traffic.load(Tensor::LSE, len_q * real_bytes);
    fast.traffic.store(Tensor::P, len_q * len_kv * real_bytes);
  }

  // D = rowsum(P ∘ dP), dS = P ∘ (dP − D)
  void gradient_of_scores(int64_t head, FastMemory<T>& fast) {
    for (int64_t query = 0; query < len_q; ++query) {
      const R *const P_row = row(P, head, query), *const dP_row = row(dP, head, query);
      const R d = dot(P_row, dP_row, len_kv);
      for (int64_t j = 0; j < len_kv; ++j) row(dS, head, query)[j] = P_row[j] * (dP_row[j] - d);
    }
    fast.traffic.load(Tensor::P, len_q * len_kv * real_bytes);
    fast.traffic.load(Tensor::dP, len_q * len_kv * real_bytes);
    fast.traffic.store(Tensor::dS, len_q * len_kv * real_bytes);
  }

  // dQ = scale · dS @ K           [q, dim] = [q, kv] @ [kv, dim]
  void gradient_of_queries(int64_t head, Tiling tiling, FastMemory<T>& fast) {
    for (int64_t q_tile = 0; q_tile < tiles_in(len_q, tiling.block_q); ++q_tile) {
      const Range queries = tile_range(q_tile, tiling.block_q, len_q);
      clear(fast.dQ);
      for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, tiling.block_kv); ++kv_tile) {
        const Range keys = tile_range(kv_tile, tiling.block_kv, len_kv);
        load_block(fast, tiling.block_kv, Tensor::dS, dS, head, queries, keys);
        fast.load(Tensor::K, fast.K, t.K, head / t.group, len_kv, keys, tiling.block_kv);
        ++fast.traffic.products;
        ++fast.traffic.tiles;  // counted once for all five products
        add_inner(fast.dQ.data(), fast.P.data(), fast.K.data(), queries.size(), tiling.block_kv,
                  dim);
      }
      fast.store_result(Tensor::dQ, fast.dQ, t.dQ, head, len_q, queries, t.scale);
    }
  }

  // C = factor · A.T @ B, summed over the heads of a group      [kv, dim] = [q, kv].T @ [q, dim]
  void product_outer(int64_t kv_head, Tiling tiling, FastMemory<T>& fast, Tensor a_name,
                     const Matrices& A, Operand B, Tensor c_name, R* C, R factor) {
    for (int64_t kv_tile = 0; kv_tile < tiles_in(len_kv, tiling.block_kv); ++kv_tile) {
      const Range keys = tile_range(kv_tile, tiling.block_kv, len_kv);
      clear(fast.dK);
      for (int64_t head = kv_head * t.group; head < (kv_head + 1) * t.group; ++head) {
        for (int64_t q_tile = 0; q_tile < tiles_in(len_q, tiling.block_q); ++q_tile) {
          const Range queries = tile_range(q_tile, tiling.block_q, len_q);
          load_block(fast, tiling.block_kv, a_name, A, head, queries, keys);
          fast.load(B.name, fast.Q, B.values, head, len_q, queries, tiling.block_q);
          ++fast.traffic.products;
          add_outer(fast.dK.data(), fast.P.data(), fast.Q.data(), tiling.block_kv, queries.size(),
                    dim);
        }
      }
      fast.store_result(c_name, fast.dK, C, kv_head, len_kv, keys, factor);
    }
  }

  template <class Matrix>
  auto* row(Matrix& matrix, int64_t head, int64_t query) const {
    return matrix.data() + (head * len_q + query) * len_kv;
  }
  // Loads an operand of a product, rounded to T, and 0 past the last key.
  void load_block(FastMemory<T>& fast, int64_t block_kv, Tensor name, const Matrices& matrix,
                  int64_t head, Range queries, Range keys) {
    for (int64_t i = 0; i < queries.size(); ++i) {
      const R* const from = row(matrix, head, queries.begin + i) + keys.begin;
      const auto to = fast.P.begin() + i * block_kv;
      std::transform(from, from + keys.size(), to, rounded<T>);
      std::fill(to + keys.size(), to + block_kv, R(0));
    }
    fast.traffic.load(name, queries.size() * keys.size() * real_bytes);
  }

  static constexpr int64_t real_bytes = sizeof(R);
  const Tensors<T>& t;
  const int64_t len_q = t.shape.q, len_kv = t.shape.kv, dim = t.shape.dim;
  Matrices S, P, dP, dS;
};

}  // namespace fa::ch10
