#pragma once
// The fast memory of one thread, and counted loads and stores. Tensors are [heads, length, dim] in
// slow memory. Incomplete sums are stored there as Real<T> and not as T.

#include <algorithm>
#include <cstdint>

#include "common/memory.hpp"
#include "cpu_tile.hpp"

namespace fa::ch10 {

template <class T>
struct FastMemory {
  using R = Real<T>;
  using Tile = counted_vector<R>;

  FastMemory(Tiling tiling, int64_t dim)
      : dim(dim),
        Q(tiling.block_q * dim),
        dO(tiling.block_q * dim),
        dQ(tiling.block_q * dim),
        K(tiling.block_kv * dim),
        V(tiling.block_kv * dim),
        dK(tiling.block_kv * dim),
        dV(tiling.block_kv * dim),
        P(tiling.block_q * tiling.block_kv),
        dS(tiling.block_q * tiling.block_kv),
        LSE(tiling.block_q),
        D(tiling.block_q) {}

  static int64_t bytes(Tiling tiling, int64_t dim) {
    return static_cast<int64_t>(sizeof(R)) *
           (3 * tiling.block_q * dim + 4 * tiling.block_kv * dim +
            2 * tiling.block_q * tiling.block_kv + 2 * tiling.block_q);
  }

  // Loads rows of one head into a tile of `block` rows, where those past the end become 0.
  template <class U>
  void load(Tensor name, Tile& tile, const U* tensor, int64_t head, int64_t length, Range rows,
            int64_t block) {
    const U* const from = tensor + (head * length + rows.begin) * dim;
    std::transform(from, from + rows.size() * dim, tile.begin(), widened<U>);
    std::fill(tile.begin() + rows.size() * dim, tile.begin() + block * dim, R(0));
    traffic.load(name, rows.size() * dim * static_cast<int64_t>(sizeof(U)));
  }
  // Stores a sum that is not complete yet.
  void store(Tensor name, const Tile& tile, R* tensor, int64_t head, int64_t length, Range rows) {
    std::copy_n(tile.begin(), rows.size() * dim, tensor + (head * length + rows.begin) * dim);
    traffic.store(name, rows.size() * dim * real_bytes);
  }
  void store_zeros(Tensor name, R* tensor, int64_t head, int64_t length) {
    std::fill_n(tensor + head * length * dim, length * dim, R(0));
    traffic.store(name, length * dim * real_bytes);
  }
  // Stores a complete sum.
  void store_result(Tensor name, const Tile& tile, R* tensor, int64_t head, int64_t length,
                    Range rows, R factor) {
    R* const to = tensor + (head * length + rows.begin) * dim;
    for (int64_t i = 0; i < rows.size() * dim; ++i) to[i] = rounded<T>(factor * tile[i]);
    traffic.store(name, rows.size() * dim * static_cast<int64_t>(sizeof(T)));
  }

  // Loads one number per query.
  void load_row(Tensor name, Tile& tile, const R* tensor, int64_t head, int64_t length,
                Range queries) {
    std::copy_n(tensor + head * length + queries.begin, queries.size(), tile.begin());
    traffic.load(name, queries.size() * real_bytes);
  }
  void store_row(Tensor name, const Tile& tile, R* tensor, int64_t head, int64_t length,
                 Range queries) {
    std::copy_n(tile.begin(), queries.size(), tensor + head * length + queries.begin);
    traffic.store(name, queries.size() * real_bytes);
  }

  static constexpr int64_t real_bytes = sizeof(R);
  const int64_t dim;
  Tile Q, dO, dQ;     // [block_q, dim]
  Tile K, V, dK, dV;  // [block_kv, dim]
  Tile P;             // [block_q, block_kv], S and then P
  Tile dS;            // [block_q, block_kv], dP and then dS
  Tile LSE, D;        // [block_q]
  Traffic traffic;
};

template <class Tile>
void clear(Tile& tile) {
  std::fill(tile.begin(), tile.end(), 0);
}

}  // namespace fa::ch10
