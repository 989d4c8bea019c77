#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <ragged_tail.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The output o / l and the logarithm of the sum of all e^s, which does not depend on the tiles.
static Numbers finished(const State& state) {
  Numbers result;
  for (const float value : state.o) result.push_back(value / state.l);
  result.push_back(state.m + std::log(state.l));
  return result;
}

struct Problem {
  int keys, dim;
  float scale;
  std::vector<float> q, k, v;
};

// The state of the keys in a list; -1 is a row of zeros. A score `hidden` becomes -inf.
static State state_of(const Problem& problem, const std::vector<int64_t>& keys,
                      float hidden = -tiles::kInfinity) {
  State state(problem.dim);
  for (const int64_t j : keys) {
    std::vector<float> k(problem.dim), v(problem.dim);
    if (j >= 0) std::copy_n(problem.k.data() + j * problem.dim, problem.dim, k.data());
    if (j >= 0) std::copy_n(problem.v.data() + j * problem.dim, problem.dim, v.data());
    std::vector<float> s = tiles::scores(problem.q, {k, 1, problem.dim}, problem.scale);
    std::replace(s.begin(), s.end(), hidden, -tiles::kInfinity);
    tiles::add_tile(state, s, {v, 1, problem.dim});
  }
  return state;
}
static Numbers attended(const Problem& problem, const std::vector<int64_t>& keys) {
  return finished(state_of(problem, keys));
}

static void check_attend(int keys, int block, float q_scale = 1) {
  const int dim = 4;
  const Problem problem{keys,
                        dim,
                        0.5f,
                        exercise::random_numbers(dim, 1, q_scale),
                        exercise::random_numbers(keys * dim, 2),
                        exercise::random_numbers(keys * dim, 3)};
  const int full = keys / block * block, padded = (keys + block - 1) / block * block;
  std::vector<int64_t> all, dropped, zeros, twice;
  for (int j = 0; j < padded; ++j) zeros.push_back(j < keys ? j : -1);
  for (int j = 0; j < keys; ++j) all.push_back(j);
  for (int j = 0; j < full; ++j) dropped.push_back(j);
  twice = dropped;
  for (int j = std::max(0, std::min(full, keys - block)); j < keys; ++j) {
    if (full < keys) twice.push_back(j);
  }
  std::vector<int64_t> one_less = all, always_one_less = all, one_more = all, no_full_tail = all,
                       every_cut, first_only, K_again, last_only, cut_in_tile;
  always_one_less.pop_back();
  if (full < keys) one_less.pop_back(), one_more.push_back(-1);
  if (full == keys) no_full_tail.resize(keys - block);
  const int rest = keys % block;
  for (int j = 0; j < padded; ++j) {
    if (j % block < rest) every_cut.push_back(j);
    if (j < std::min(block, keys)) first_only.push_back(j);
    if (j < keys) K_again.push_back(j % block);
    if (j < keys && j >= padded - block) last_only.push_back(j);
    if (j % block < keys) cut_in_tile.push_back(j < keys ? j : -1);
  }
  State divided = state_of(problem, all);
  for (float& value : divided.o) value /= divided.l;
  Problem unscaled = problem;
  unscaled.scale = 1;
  Problem k_for_v = problem, v_for_k = problem;
  k_for_v.v = problem.k, v_for_k.k = problem.v;
  const char* leak =
      "the rows past the end are zeros with the score 0, whose weight is e^(0 - m). Their score "
      "must be -inf";
  exercise::check_output(
      {"o, log-sum-exp", 0, 1e-4},
      finished(attend(problem.q, {problem.k.data(), keys, dim}, {problem.v.data(), keys, dim},
                      problem.scale, block)),
      attended(problem, all),
      {{"unmasked-tail", attended(problem, zeros), leak},
       {"tail-dropped", attended(problem, dropped),
        "the last keys, too few for a tile, are left out. There are as many tiles as keys / block, "
        "rounded up"},
       {"last-key-hidden", attended(problem, one_less),
        "the last real key of the ragged tile is hidden, too: the first to hide is K.rows - first"},
       {"last-key-hidden", attended(problem, always_one_less),
        "the last key is masked, too, even where the last tile is full: the last one is row K.rows "
        "- first - 1 of its tile, and the first to mask is K.rows - first"},
       {"one-row-left", attended(problem, one_more),
        "one row of zeros is left in the ragged tile: the first to hide is K.rows - first"},
       {"full-last-tile-hidden", attended(problem, full ? no_full_tail : all),
        "keys % block is 0 when the last tile is full, and then all of it was hidden"},
       {"score-zero-hidden", finished(state_of(problem, all, 0)),
        "every key with the score 0 was hidden, but a real key may have the score 0, too. Only the "
        "number of a key tells whether it is past the end"},
       {"every-tile-cut", attended(problem, every_cut),
        "every tile was cut off like the last one, but the others are full"},
       {"first-tile-only", attended(problem, first_only), "only the first tile was taken in"},
       {"row-of-the-tile-compared", attended(problem, cut_in_tile),
        "j counts the rows of the tile, and was compared with the number of all keys. Row j of the "
        "tile is key first + j"},
       {"last-tile-only", attended(problem, last_only),
        "the state is reset for each tile. It has to be made once, before the loop"},
       {"divided-already", finished(divided), "o is divided by l. A state keeps the sum"},
       {"k-for-v", attended(k_for_v, all), "the tile of V was loaded from K"},
       {"v-for-k", attended(v_for_k, all), "the tile of K was loaded from V"},
       {"rows-from-the-beginning", attended(problem, K_again),
        "every tile is the first one: load_tile takes the number of the row, not 0"},
       {"scale-forgotten", attended(unscaled, all), "the scores were taken without the scale"},
       {"tail-read-twice", attended(problem, twice),
        "the last tile was moved back to be full. Then some keys count twice"}});
}

TEST_CASE("a multiple of the block") { check_attend(8, 4); }
TEST_CASE("7 keys in tiles of 4") { check_attend(7, 4); }
TEST_CASE("9 keys in tiles of 4") { check_attend(9, 4); }
TEST_CASE("fewer keys than a tile has") { check_attend(3, 4); }
TEST_CASE("every score is 0") { check_attend(7, 4, 0); }
TEST_CASE("257 keys in tiles of 64, every score far from 0") { check_attend(257, 64, 20); }
