#include "loop_order.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "ladder.hpp"
#include "state.hpp"
#include "tile.hpp"

namespace ch02 {

Blocks blocks_for(int64_t fast_elements, int64_t dim, bool round_up) {
  const int64_t rounding = round_up ? 4 * dim - 1 : 0;
  const int64_t cols = std::max<int64_t>(1, (fast_elements + rounding) / (4 * dim));
  return {std::min(cols, dim), cols};
}

OutputTile::OutputTile(int64_t rows, int64_t dim)
    : m(rows, -kInfinity<float>), l(rows), o(rows * dim) {}

namespace {

// Tiles in fast memory. Every transfer to and from slow memory is counted.
class FastTiles {
 public:
  FastTiles(const HeadTensors& head, Blocks blocks)
      : head_(head),
        dim_(head.q.cols),
        rows_(blocks.rows),
        cols_(blocks.cols),
        q_(rows_ * dim_),
        k_(dim_ * cols_),
        v_(cols_ * dim_),
        s_(rows_ * cols_),
        p_(rows_ * cols_),
        product_(rows_ * dim_),
        m_tile_(rows_),
        l_tile_(rows_) {
    if (head.causal && head.q.rows != head.k.rows) {
      throw std::invalid_argument("causal: as many keys as queries");
    }
  }

  // A load is counted for the next visit, a store for the last visit.
  void load(Matrix matrix, int64_t elements) {
    traffic.elements_read += elements;
    loads_[matrix] += elements;
  }
  void visit(int pass, Range queries, Range keys) {
    traffic.visits.push_back({pass, queries, keys, std::exchange(loads_, {}), {}});
  }
  void store(Matrix matrix, int64_t elements) {
    traffic.elements_written += elements;
    traffic.visits.back().stores[matrix] += elements;
  }

  void load_q(Range queries) {
    load_tile(q_.data(), head_.q, queries, rows_, bytes_);
    load(kQ, queries.size() * dim_);
    ++traffic.q_loads;
  }
  void load_k(Range keys) {
    load_tile_transposed(k_.data(), head_.k, keys, cols_, bytes_);
    load(kK, keys.size() * dim_);
  }
  void load_v(Range keys) {
    load_tile(v_.data(), head_.v, keys, cols_, bytes_);
    load(kV, keys.size() * dim_);
  }
  void load_kv(Range keys) {
    load_k(keys);
    load_v(keys);
    ++traffic.kv_loads;
  }

  bool hides(Range queries, Range keys) const {
    return head_.causal && Causal{0}.hides(queries, keys);
  }

  // Computes S of one tile, scaled and masked.
  void multiply_scores(Range queries, Range keys) {
    multiply_query_key(s_.data(), q_.data(), k_.data(), rows_, cols_, dim_);
    for (int64_t i = 0; i < queries.size(); ++i) {
      for (int64_t j = 0; j < keys.size(); ++j) {
        float& score = s_[i * cols_ + j];
        score *= head_.scale;
        if (head_.causal) score = Causal{0}(score, queries.begin + i, keys.begin + j);
      }
    }
  }

  // S of one tile of keys, with m, l and P relative to the tile's own maximum.
  void attend(Range queries, Range keys) {
    visit(0, queries, keys);
    multiply_scores(queries, keys);
    for (int64_t i = 0; i < queries.size(); ++i) {
      const std::span S_row(s_.data() + i * cols_, keys.size());
      m_tile_[i] = *std::max_element(S_row.begin(), S_row.end());
      l_tile_[i] = 0;
      for (int64_t j = 0; j < cols_; ++j) {
        p_[i * cols_ + j] = j < keys.size() ? exp_minus(S_row[j], m_tile_[i]) : 0;
        l_tile_[i] += p_[i * cols_ + j];
      }
    }
    std::fill(product_.begin(), product_.end(), 0.0f);
    multiply_add(product_.data(), p_.data(), v_.data(), rows_, cols_, dim_);  // P @ V
  }

  // O += P @ V for one tile of P from plain attention, [len_q, len_kv].
  void multiply_values(Range queries, Range keys, fa::View<const float> P, float* O) {
    for (int64_t i = 0; i < queries.size(); ++i) {
      std::copy_n(P.row(queries.begin + i) + keys.begin, keys.size(), p_.data() + i * cols_);
      std::fill(p_.data() + i * cols_ + keys.size(), p_.data() + (i + 1) * cols_, 0.0f);
    }
    multiply_add(O, p_.data(), v_.data(), queries.size(), cols_, dim_);
  }

  fa::View<const float> s() const { return {s_.data(), rows_, cols_}; }
  const std::vector<float>& product() const { return product_; }
  const std::vector<float>& m_tile() const { return m_tile_; }
  const std::vector<float>& l_tile() const { return l_tile_; }

  LoopTraffic traffic;

 private:
  const HeadTensors& head_;
  const int64_t dim_, rows_, cols_;
  std::vector<float> q_, k_, v_, s_, p_, product_, m_tile_, l_tile_;
  Counts bytes_;
  Elements loads_{};  // since the last visit
};

}  // namespace

LoopTraffic kv_outer(const HeadTensors& head, Blocks blocks, int64_t resident,
                     const LoopObserver& observe) {
  const int64_t len_q = head.q.rows, len_kv = head.k.rows, dim = head.q.cols;
  const int64_t q_tiles = tiles_in(len_q, blocks.rows), kv_tiles = tiles_in(len_kv, blocks.cols);
  FastTiles fast(head, blocks);
  std::vector<OutputTile> outputs(q_tiles, OutputTile(blocks.rows, dim));  // in slow memory
  LoopTraffic& traffic = fast.traffic;
  traffic.o_starts = q_tiles;
  for (int64_t j = 0; j < kv_tiles; ++j) {
    const Range keys = tile_range(j, blocks.cols, len_kv);
    fast.load_kv(keys);
    for (int64_t i = 0; i < q_tiles; ++i) {
      const Range queries = tile_range(i, blocks.rows, len_q);
      if (fast.hides(queries, keys)) continue;
      const bool last =
          j == kv_tiles - 1 || fast.hides(queries, tile_range(j + 1, blocks.cols, len_kv));
      fast.load_q(queries);
      OutputTile tile = outputs[i];
      if (i >= resident || j == 0) {
        ++traffic.o_loads;
        fast.load(kO, queries.size() * dim);
        fast.load(kState, queries.size() * 2);
      }

      fast.attend(queries, keys);  // S, m̃, l̃ and P̃ V of this tile only
      for (int64_t row = 0; row < queries.size(); ++row) {
        float &m = tile.m[row], &l = tile.l[row];
        const float m_new = std::max(m, fast.m_tile()[row]);
        const float keep = exp_minus(m, m_new) * l, add = exp_minus(fast.m_tile()[row], m_new);
        const float l_new = keep + add * fast.l_tile()[row];
        for (int64_t d = row * dim; d < (row + 1) * dim; ++d) {
          tile.o[d] = (keep * tile.o[d] + add * fast.product()[d]) / l_new;
        }
        m = m_new;
        l = l_new;
      }
      if (observe) {
        observe({queries, keys, fast.s(), fast.m_tile(), fast.l_tile(), outputs[i], tile});
      }

      outputs[i] = tile;
      if (i >= resident || last) {
        ++traffic.o_stores;
        fast.store(kO, queries.size() * dim);
        fast.store(kState, queries.size() * 2);
      }
    }
  }
  for (int64_t row = 0; row < len_q; ++row) {
    const OutputTile& tile = outputs[row / blocks.rows];
    const int64_t i = row % blocks.rows;
    std::copy_n(tile.o.data() + i * dim, dim, head.o.row(row));
    head.lse[row] = tile.m[i] + std::log(tile.l[i]);
  }
  return traffic;
}

LoopTraffic q_outer(const HeadTensors& head, Blocks blocks, const LoopObserver& observe) {
  const int64_t len_q = head.q.rows, len_kv = head.k.rows, dim = head.q.cols;
  const int64_t q_tiles = tiles_in(len_q, blocks.rows), kv_tiles = tiles_in(len_kv, blocks.cols);
  FastTiles fast(head, blocks);
  LoopTraffic& traffic = fast.traffic;
  for (int64_t i = 0; i < q_tiles; ++i) {
    const Range queries = tile_range(i, blocks.rows, len_q);
    fast.load_q(queries);
    OutputTile tile(blocks.rows, dim);  // created in fast memory and kept there
    ++traffic.o_starts;
    for (int64_t j = 0; j < kv_tiles; ++j) {
      const Range keys = tile_range(j, blocks.cols, len_kv);
      if (fast.hides(queries, keys)) continue;
      fast.load_kv(keys);

      fast.attend(queries, keys);
      const OutputTile before = observe ? tile : OutputTile(0, 0);
      for (int64_t row = 0; row < queries.size(); ++row) {
        float &m = tile.m[row], &l = tile.l[row];
        const float m_new = std::max(m, fast.m_tile()[row]);
        const float keep = exp_minus(m, m_new), add = exp_minus(fast.m_tile()[row], m_new);
        for (int64_t d = row * dim; d < (row + 1) * dim; ++d) {
          tile.o[d] = keep * tile.o[d] + add * fast.product()[d];  // divided by l at the end
        }
        l = keep * l + add * fast.l_tile()[row];
        m = m_new;
      }
      if (observe) {
        observe({queries, keys, fast.s(), fast.m_tile(), fast.l_tile(), before, tile});
      }
    }
    for (int64_t row = 0; row < queries.size(); ++row) {
      for (int64_t d = 0; d < dim; ++d) {
        head.o(queries.begin + row, d) = tile.o[row * dim + d] / tile.l[row];
      }
      head.lse[queries.begin + row] = tile.m[row] + std::log(tile.l[row]);
    }
    ++traffic.o_stores;
    fast.store(kO, queries.size() * dim);
    fast.store(kState, queries.size());  // the log-sum-exp
  }
  return traffic;
}

LoopTraffic three_passes(const HeadTensors& head, Blocks blocks) {
  const int64_t len_q = head.q.rows, len_kv = head.k.rows, dim = head.q.cols;
  const int64_t q_tiles = tiles_in(len_q, blocks.rows), kv_tiles = tiles_in(len_kv, blocks.cols);
  FastTiles fast(head, blocks);
  std::vector<float> S_memory(len_q * len_kv);  // in slow memory, later overwritten with P
  const fa::View<float> S{S_memory.data(), len_q, len_kv};
  for (int64_t i = 0; i < q_tiles; ++i) {  // S = Q @ K.T
    const Range queries = tile_range(i, blocks.rows, len_q);
    fast.load_q(queries);
    for (int64_t j = 0; j < kv_tiles; ++j) {
      const Range keys = tile_range(j, blocks.cols, len_kv);
      fast.load_k(keys);
      fast.visit(0, queries, keys);
      fast.multiply_scores(queries, keys);
      for (int64_t row = 0; row < queries.size(); ++row) {
        std::copy_n(fast.s().row(row), keys.size(), S.row(queries.begin + row) + keys.begin);
      }
      fast.store(kS, queries.size() * keys.size());
    }
  }
  for (int64_t i = 0; i < q_tiles; ++i) {  // P = softmax(S), row by row
    const Range queries = tile_range(i, blocks.rows, len_q);
    fast.load(kS, 3 * queries.size() * len_kv);  // for the maximum, the sum and the weights
    fast.visit(1, queries, {0, len_kv});
    for (int64_t row = queries.begin; row < queries.end; ++row) {
      const std::span weights(S.row(row), len_kv);
      head.lse[row] = safe_softmax<float>(weights, weights);
    }
    fast.store(kP, queries.size() * len_kv);
    fast.store(kState, queries.size());
  }
  for (int64_t i = 0; i < q_tiles; ++i) {  // O = P @ V
    const Range queries = tile_range(i, blocks.rows, len_q);
    OutputTile tile(blocks.rows, dim);
    for (int64_t j = 0; j < kv_tiles; ++j) {
      const Range keys = tile_range(j, blocks.cols, len_kv);
      fast.load_v(keys);
      fast.load(kP, queries.size() * keys.size());
      fast.visit(2, queries, keys);
      fast.multiply_values(queries, keys, S, tile.o.data());
    }
    std::copy_n(tile.o.data(), queries.size() * dim, head.o.row(queries.begin));
    fast.store(kO, queries.size() * dim);
  }
  return fast.traffic;
}

}  // namespace ch02
