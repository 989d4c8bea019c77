#include "exercises/02_tiled_cpu/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tiles {
namespace {

void check_tile(const char* what, int64_t tile, int64_t count) {
  if (tile < 0 || tile >= count) {
    throw std::out_of_range(std::string(what) + "(" + std::to_string(tile) + "): there are " +
                            std::to_string(count) + " tiles");
  }
}

}  // namespace

std::vector<std::string> names_in_state(int64_t dim) {
  std::vector<std::string> names = {"m", "l"};
  for (int64_t d = 0; d < dim; ++d) names.push_back("o[" + std::to_string(d) + "]");
  return names;
}

Tile load_tile(fa::View<const float> matrix, int64_t first, int64_t block) {
  if (first < 0 || first >= matrix.rows) {
    throw std::out_of_range("load_tile from row " + std::to_string(first) + ": there are " +
                            std::to_string(matrix.rows) + " rows");
  }
  Tile tile{std::vector<float>(block * matrix.cols), block, matrix.cols};
  const int64_t rows = std::min(block, matrix.rows - first);
  std::copy_n(matrix.row(first), rows * matrix.cols, tile.data.data());
  return tile;
}

std::vector<float> scores(std::span<const float> q, const Tile& K, float scale) {
  std::vector<float> s(K.rows);
  for (int64_t j = 0; j < K.rows; ++j) {
    for (int64_t d = 0; d < K.cols; ++d) s[j] += q[d] * K.view()(j, d);
    s[j] *= scale;
  }
  return s;
}

void add_tile(State& state, std::span<const float> s, const Tile& V) {
  const float m = std::max(state.m, *std::max_element(s.begin(), s.end()));
  if (m == -kInfinity) return;
  const float rescale = std::exp(state.m - m);
  state.l *= rescale;
  for (float& value : state.o) value *= rescale;
  for (size_t j = 0; j < s.size(); ++j) {
    const float p = std::exp(s[j] - m);
    state.l += p;
    for (size_t d = 0; d < state.o.size(); ++d) state.o[d] += p * V.view()(j, d);
  }
  state.m = m;
}

SlowMemory::SlowMemory(fa::View<const float> Q, fa::View<const float> K, fa::View<const float> V,
                       float scale, int64_t block_q, int64_t block_kv)
    : Q_(Q),
      K_(K),
      V_(V),
      scale_(scale),
      block_q_(block_q),
      block_kv_(block_kv),
      outputs_(Q.rows / block_q, std::vector<State>(block_q, State(V.cols))),
      stored_(outputs_.size()) {}

Tile SlowMemory::load_q(int64_t q_tile) {
  check_tile("load_q", q_tile, q_tiles());
  ++traffic_.q_loads;
  return load_tile(Q_, q_tile * block_q_, block_q_);
}

SlowMemory::KeyTile SlowMemory::load_kv(int64_t kv_tile) {
  check_tile("load_kv", kv_tile, kv_tiles());
  ++traffic_.kv_loads;
  const int64_t first = kv_tile * block_kv_;
  return {load_tile(K_, first, block_kv_), load_tile(V_, first, block_kv_)};
}

std::vector<State> SlowMemory::load_output(int64_t q_tile) {
  check_tile("load_output", q_tile, q_tiles());
  ++traffic_.output_loads;
  return outputs_[q_tile];
}

void SlowMemory::store_output(int64_t q_tile, std::vector<State> states) {
  check_tile("store_output", q_tile, q_tiles());
  if (states.size() != outputs_[q_tile].size()) {
    throw std::out_of_range("store_output: " + std::to_string(states.size()) +
                            " states for a tile of " + std::to_string(block_q_) + " queries");
  }
  ++traffic_.output_stores;
  stored_[q_tile].insert(stored_[q_tile].end(), states.begin(), states.end());
  outputs_[q_tile] = std::move(states);
}

std::vector<State> SlowMemory::attend(const Tile& Q, const KeyTile& keys) const {
  std::vector<State> states(Q.rows, State(keys.V.cols));
  for (int64_t i = 0; i < Q.rows; ++i) {
    const std::span q(Q.view().row(i), static_cast<size_t>(Q.cols));
    add_tile(states[i], scores(q, keys.K, scale_), keys.V);
  }
  return states;
}

}  // namespace tiles
