#include "loop_order.hpp"

#include <algorithm>
#include <cmath>

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

// Tiles in fast memory, and the counted way in and out.
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
        l_tile_(rows_) {}

  void load_q(Range queries) {
    load_tile(q_.data(), head_.q, queries, rows_, bytes_);
    traffic.elements_read += queries.size() * dim_;
    ++traffic.q_loads;
  }
  void load_kv(Range keys) {
    load_tile_transposed(k_.data(), head_.k, keys, cols_, bytes_);
    load_tile(v_.data(), head_.v, keys, cols_, bytes_);
    traffic.elements_read += 2 * keys.size() * dim_;
    ++traffic.kv_loads;
  }

  // What one tile of keys says alone: S, and m, l and P relative to the tile's own maximum.
  void attend(Range queries, Range keys) {
    multiply_query_key(s_.data(), q_.data(), k_.data(), rows_, cols_, dim_);
    for (int64_t i = 0; i < queries.size(); ++i) {
      const std::span S_row(s_.data() + i * cols_, keys.size());
      for (float& score : S_row) score *= head_.scale;
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
  const int64_t output_elements = dim + 2;  // of one query: its row of O, m and l
  for (int64_t j = 0; j < kv_tiles; ++j) {
    const Range keys = tile_range(j, blocks.cols, len_kv);
    fast.load_kv(keys);
    for (int64_t i = 0; i < q_tiles; ++i) {
      const Range queries = tile_range(i, blocks.rows, len_q);
      const bool load = i >= resident || j == 0, store = i >= resident || j == kv_tiles - 1;
      fast.load_q(queries);
      OutputTile tile = outputs[i];
      traffic.o_loads += load;
      traffic.elements_read += load ? queries.size() * output_elements : 0;

      fast.attend(queries, keys);  // S, m̃, l̃ and P̃ V of this tile alone
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
      traffic.o_stores += store;
      traffic.elements_written += store ? queries.size() * output_elements : 0;
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
    OutputTile tile(blocks.rows, dim);  // begins and stays in fast memory
    ++traffic.o_starts;
    for (int64_t j = 0; j < kv_tiles; ++j) {
      const Range keys = tile_range(j, blocks.cols, len_kv);
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
    traffic.elements_written += queries.size() * (dim + 1);  // O and the log-sum-exp
  }
  return traffic;
}

}  // namespace ch02
