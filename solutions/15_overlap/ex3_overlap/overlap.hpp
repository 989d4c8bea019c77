#pragma once
// The scores come first, then the output of the previous tile, because groups end in order, and the
// softmax needs the scores. After wgmma_wait<0>, O and P belong to this thread again. O then holds
// the tiles before this one.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex15 {

constexpr int KEYS = 16, HEAD_DIM = 64;  // keys of a tile
using Scores = float[KEYS / 8][4];
using Weights = uint32_t[4];
using Output = float[HEAD_DIM / 8][4];

// All 128 threads of a warpgroup call it. Q and all tiles of K and V are in shared memory, and O is
// 0. While the softmax of a tile is computed, the product for the output of the tile before is in
// flight.
template <class Steps>
FA_DEVICE void attend(Steps& steps, Scores& S, Weights& P, Output& O, int num_tiles) {
  steps.begin_scores(S, 0);
  wgmma_wait<0>(S);
  steps.softmax(S, 0);  // O is 0: nothing to rescale
  steps.pack(P, S);
  for (int tile = 1; tile < num_tiles; ++tile) {
    steps.begin_scores(S, tile);
    steps.begin_output(O, P, tile - 1);
    wgmma_wait<1>(S);
    const auto factors = steps.softmax(S, tile);
    wgmma_wait<0>(O);
    steps.rescale(O, factors);
    steps.pack(P, S);
  }
  steps.begin_output(O, P, num_tiles - 1);
  wgmma_wait<0>(O);
}

}  // namespace FA_BACKEND::ex15
