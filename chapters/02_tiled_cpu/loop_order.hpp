#pragma once
// The two loop orders of tiled attention and plain attention's three passes, on one head, with slow
// memory (HBM) and fast memory (SRAM) told apart: whatever crosses is counted.

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/tensor.hpp"
#include "modifier.hpp"

namespace ch02 {

// The block sizes and what they need in fast memory, in elements.
struct Blocks {
  int64_t rows, cols;  // B_r queries, B_c keys

  // Q, K, V, O and S; not the vectors m and l.
  int64_t elements(int64_t dim) const { return 2 * rows * dim + 2 * cols * dim + rows * cols; }
};
// B_c = ⌈M / 4d⌉ as the FlashAttention paper prints it, or ⌊M / 4d⌋; B_r = min(B_c, d).
Blocks blocks_for(int64_t fast_elements, int64_t dim, bool round_up);

// What crosses. kState is m and l of each query, or the log-sum-exp that they end as.
enum Matrix { kQ, kK, kV, kS, kP, kO, kState, kMatrices };
using Elements = std::array<int64_t, kMatrices>;

// One pair of a query tile and a key tile: what is loaded for it, what is stored after it.
struct Visit {
  int pass;  // 0; plain attention has passes 0 to 2
  Range queries, keys;
  Elements loads, stores;
};

// Traffic between slow and fast memory. Loads and stores are in tiles; K and V count as one, and so
// do O, m and l.
struct LoopTraffic {
  int64_t q_loads = 0, kv_loads = 0, o_loads = 0, o_stores = 0;
  int64_t o_starts = 0;  // O = 0, l = 0, m = −inf: set in slow memory (kv_outer), in fast (q_outer)
  int64_t elements_read = 0, elements_written = 0;
  std::vector<Visit> visits;
};

// O, m and l of one tile of queries.
struct OutputTile {
  OutputTile(int64_t rows, int64_t dim);  // O = 0, l = 0, m = −inf
  std::vector<float> m, l;                // [rows]
  std::vector<float> o;                   // [rows, dim]
};

// What happened to one pair of a query tile and a key tile.
struct LoopStep {
  Range queries, keys;
  fa::View<const float> s;                   // [rows, cols]; keys past the end mean nothing
  const std::vector<float>&m_tile, &l_tile;  // of this tile alone
  const OutputTile &before, &after;
};
using LoopObserver = std::function<void(const LoopStep&)>;

// One head: q and o are [len_q, dim], k and v [len_kv, dim], lse [len_q]. `causal` needs as many
// keys as queries.
struct HeadTensors {
  fa::View<const float> q, k, v;
  float scale;
  fa::View<float> o;
  std::vector<float>& lse;
  bool causal = false;
};

// FlashAttention-1: keys outside, queries inside; O, m and l wait in slow memory between two visits
// and O is kept normalised. The first `resident` tiles of O never leave fast memory.
LoopTraffic kv_outer(const HeadTensors& head, Blocks blocks, int64_t resident = 0,
                     const LoopObserver& observe = {});

// FlashAttention-2: queries outside, keys inside; O stays in fast memory until it is finished.
LoopTraffic q_outer(const HeadTensors& head, Blocks blocks, const LoopObserver& observe = {});

// Plain attention: S = Q @ K.T, P = softmax(S), O = P @ V, with S and P in slow memory in between.
// It hides scores, and skips no tile.
LoopTraffic three_passes(const HeadTensors& head, Blocks blocks);

}  // namespace ch02
