#pragma once
// Types for the exercises on tiles, which are tiles, and a slow memory that counts loads and
// stores.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/tensor.hpp"

namespace tiles {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The state of one query over the keys that it has seen.
struct State {
  float m = -kInfinity;  // max s
  float l = 0;           // sum of e^(s - m)
  std::vector<float> o;  // sum of e^(s - m) v   [dim]

  explicit State(int64_t dim) : o(dim) {}
};

// The names of a state's numbers in the tests, which are m, l, o[0], o[1], …
std::vector<std::string> names_in_state(int64_t dim);

// Rows of a matrix in fast memory.
struct Tile {
  std::vector<float> data;
  int64_t rows, cols;

  fa::View<const float> view() const { return {data.data(), rows, cols}; }
};

// `block` rows of the matrix, beginning with row `first`. Rows past its end are filled with zeros.
Tile load_tile(fa::View<const float> matrix, int64_t first, int64_t block);

// s[j] = scale * (q . K row j)
std::vector<float> scores(std::span<const float> q, const Tile& K, float scale);

// Adds a tile of keys to the state. You write this in 02.5.
void add_tile(State& state, std::span<const float> s, const Tile& V);

// One head in slow memory. Everything in the tiles of it crosses, and is counted.
class SlowMemory {
 public:
  struct KeyTile {
    Tile K, V;
  };
  struct Traffic {
    int64_t q_loads = 0, kv_loads = 0, output_loads = 0, output_stores = 0;  // in tiles
  };

  // Every length is a multiple of its block.
  SlowMemory(fa::View<const float> Q, fa::View<const float> K, fa::View<const float> V, float scale,
             int64_t block_q, int64_t block_kv);

  int64_t q_tiles() const { return Q_.rows / block_q_; }
  int64_t kv_tiles() const { return K_.rows / block_kv_; }
  Tile load_q(int64_t q_tile);
  KeyTile load_kv(int64_t kv_tile);

  // The states of a tile's queries, one each. At first every state is State(dim).
  std::vector<State> load_output(int64_t q_tile);
  void store_output(int64_t q_tile, std::vector<State> states);

  // In fast memory are the states of the queries over these keys alone.
  std::vector<State> attend(const Tile& Q, const KeyTile& keys) const;

  const Traffic& traffic() const { return traffic_; }
  const std::vector<std::vector<State>>& outputs() const { return outputs_; }
  // All states that were stored for each tile of queries, in order.
  const std::vector<std::vector<State>>& stored() const { return stored_; }

 private:
  const fa::View<const float> Q_, K_, V_;
  const float scale_;
  const int64_t block_q_, block_kv_;
  std::vector<std::vector<State>> outputs_;  // [q_tiles][block_q]
  std::vector<std::vector<State>> stored_;   // [q_tiles][stores * block_q]
  Traffic traffic_;
};

}  // namespace tiles
