#pragma once
// From one product after the other to two at a time.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex15 {

constexpr int KEYS = 16, HEAD_DIM = 64;  // keys of a tile
using Scores = float[KEYS / 8][4];
using Weights = uint32_t[4];
using Output = float[HEAD_DIM / 8][4];

// All 128 threads of a warpgroup call it. Q and all tiles of K and V are in shared memory, and O is
// 0. These are its steps, and wgmma_wait<N>(S) or wgmma_wait<N>(O), which names the accumulators
// that are the thread's again:
//
//   begin_scores(S, tile)      S = Q @ K[tile].T: fence, wgmma, commit; one group
//   begin_output(O, P, tile)   O += P @ V[tile]: fence, wgmma, commit; one group
//   softmax(S, tile)           masks the keys of S that this tile has not, and makes weights of S.
//                              The maximum may grow: returns by what sums of earlier tiles are to
//                              be multiplied then (its own, l, it has multiplied)
//   rescale(O, factors)        O *= factors
//   pack(P, S)                 P = S
//
// This is chapter 14's loop. Write it so that, while the softmax of a tile is computed, the product
// for the output of the previous tile is in flight, queued after this tile's scores.
//
//   for (int tile = 0; tile < num_tiles; ++tile) {
//     steps.begin_scores(S, tile);
//     wgmma_wait<0>(S);
//     const auto factors = steps.softmax(S, tile);
//     steps.rescale(O, factors);
//     steps.pack(P, S);
//     steps.begin_output(O, P, tile);
//     wgmma_wait<0>(O);
//   }
template <class Steps>
FA_DEVICE void attend(Steps& steps, Scores& S, Weights& P, Output& O, int num_tiles) {
  exercise::todo("TODO(15.3): the first tile, the loop, the last output");
}

}  // namespace FA_BACKEND::ex15
