#pragma once
// Attention in three passes, with the whole score matrix in memory between them. It uses the same
// tile products as tiled.hpp, so the only difference is where S is stored. S is fp32 for every T,
// because a bf16 score of 600 could be off by 1, which changes its weight by a factor of e.

#include <algorithm>
#include <span>
#include <vector>

#include "tiled.hpp"

namespace ch02 {

// An algorithm of ladder.hpp that computes weights a = softmax(x) from scores x. a may be x.
struct SoftmaxRung {
  float (*softmax)(std::span<const float> x, std::span<float> a);  // returns log Σ eˣ
  int reads;                                                       // number of passes over x
};

// The memory of Naive::run(), which is S [batch, heads, q, kv], and a work area for each thread.
inline int64_t naive_bytes(const fa::Shape& shape, Tiling tiling, int threads) {
  return shape.rows() * shape.kv * static_cast<int64_t>(sizeof(float)) +
         threads * FastMemory::bytes(tiling, shape.dim);
}

template <class T>
class Naive {
 public:
  Naive(const Tensors<T>& tensors, Tiling tiling, const ModifierChoice& modifier, SoftmaxRung rung,
        int threads)
      : t_(tensors),
        tiling_(tiling),
        modifier_(modifier),
        rung_(rung),
        threads_(threads),
        q_tiles_(tiles_in(t_.shape.q, tiling.block_q)),
        counts_(threads),
        S_(t_.shape.rows() * t_.shape.kv) {
    for (int i = 0; i < threads; ++i) fast_.emplace_back(tiling, t_.shape.dim);
  }

  Counts run() {
    const int64_t q_tiles = t_.shape.batch * t_.shape.heads * q_tiles_;
    fa::parallel_for(q_tiles, threads_, [&](int64_t i, int thread) { scores(i, thread); });
    fa::parallel_for(t_.shape.rows(), threads_, [&](int64_t i, int thread) { weights(i, thread); });
    fa::parallel_for(q_tiles, threads_, [&](int64_t i, int thread) { output(i, thread); });
    Counts total;
    for (const Counts& one : counts_) total += one;
    return total;
  }

 private:
  // S = scale · Q @ K.T for one tile of queries
  void scores(int64_t q_tile, int thread) {
    const int64_t block_q = tiling_.block_q, block_kv = tiling_.block_kv;
    const int64_t head = q_tile / q_tiles_, dim = t_.shape.dim;
    const Range queries = tile_range(q_tile % q_tiles_, block_q, t_.shape.q);
    FastMemory& fast = fast_[thread];
    load_tile(fast.q.data(), fa::head(t_.q, head, t_.shape.q, dim), queries, block_q,
              counts_[thread]);
    with_modifier(modifier_, t_.shape, head % t_.shape.heads, [&](const auto& modifier) {
      for (int64_t begin = 0; begin < t_.shape.kv; begin += block_kv) {
        const Range keys{begin, std::min(begin + block_kv, t_.shape.kv)};
        load_tile_transposed(fast.k.data(), fa::head(t_.k, head, t_.shape.kv, dim), keys, block_kv,
                             counts_[thread]);
        multiply_query_key(fast.s.data(), fast.q.data(), fast.k.data(), block_q, block_kv, dim);
        modify_scores(fast.s.data(), queries, keys, block_kv, t_.scale, modifier, Intact{});
        for (int64_t i = 0; i < queries.size(); ++i) {
          std::copy_n(fast.s.data() + i * block_kv, keys.size(),
                      row(head * t_.shape.q + queries.begin + i).data() + keys.begin);
        }
      }
    });
    counts_[thread].bytes_written += queries.size() * row_bytes();
  }

  // P = softmax(S) for one row, in place, rounded to T
  void weights(int64_t index, int thread) {
    const std::span<float> S_row = row(index);
    t_.lse[index] = softmax(S_row);
    for (float& p : S_row) p = rounded<T>(p);
    counts_[thread].bytes_read += rung_.reads * row_bytes();
    counts_[thread].bytes_written += row_bytes() + static_cast<int64_t>(sizeof(float));
  }

  float softmax(std::span<float> x) const {
    const bool sees_a_key =
        std::any_of(x.begin(), x.end(), [](float score) { return score != -kInfinity<float>; });
    if (sees_a_key) return rung_.softmax(x, x);
    std::fill(x.begin(), x.end(), 0.0f);
    return -kInfinity<float>;
  }

  // O = P @ V for one tile of queries
  void output(int64_t q_tile, int thread) {
    const int64_t block_q = tiling_.block_q, block_kv = tiling_.block_kv;
    const int64_t head = q_tile / q_tiles_, dim = t_.shape.dim;
    const Range queries = tile_range(q_tile % q_tiles_, block_q, t_.shape.q);
    const int64_t first_row = head * t_.shape.q + queries.begin;
    FastMemory& fast = fast_[thread];
    std::fill(fast.o.begin(), fast.o.end(), 0.0f);
    for (int64_t begin = 0; begin < t_.shape.kv; begin += block_kv) {
      const Range keys{begin, std::min(begin + block_kv, t_.shape.kv)};
      load_tile(fast.v.data(), fa::head(t_.v, head, t_.shape.kv, dim), keys, block_kv,
                counts_[thread]);
      for (int64_t i = 0; i < queries.size(); ++i) {
        std::copy_n(row(first_row + i).data() + keys.begin, keys.size(),
                    fast.s.data() + i * keys.size());
      }
      multiply_add(fast.o.data(), fast.s.data(), fast.v.data(), queries.size(), keys.size(), dim);
    }
    for (int64_t i = 0; i < queries.size() * dim; ++i) {
      t_.o[first_row * dim + i] = rounded<T>(fast.o[i]);
    }
    counts_[thread].bytes_read += queries.size() * row_bytes();
    counts_[thread].bytes_written += queries.size() * dim * static_cast<int64_t>(sizeof(T));
  }

  std::span<float> row(int64_t index) {
    return {S_.data() + index * t_.shape.kv, static_cast<size_t>(t_.shape.kv)};
  }
  int64_t row_bytes() const { return t_.shape.kv * static_cast<int64_t>(sizeof(float)); }

  const Tensors<T> t_;
  const Tiling tiling_;
  const ModifierChoice modifier_;
  const SoftmaxRung rung_;
  const int threads_;
  const int64_t q_tiles_;  // tiles of queries per head
  std::vector<FastMemory> fast_;
  std::vector<Counts> counts_;
  fa::counted_vector<float> S_;
};

}  // namespace ch02
