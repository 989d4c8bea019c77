#pragma once
// Counts the transfers between slow memory (HBM) and fast memory (SRAM) for one head, with the two
// loop orders of tiled attention and with plain attention in three passes.

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/tensor.hpp"
#include "modifier.hpp"

namespace ch02 {

// Block sizes, and the fast memory that they need, in elements.
struct Blocks {
  int64_t rows, cols;  // B_r queries, B_c keys

  // Returns the elements of Q, K, V, O and S, without the vectors m and l.
  int64_t elements(int64_t dim) const { return 2 * rows * dim + 2 * cols * dim + rows * cols; }
};
// Returns B_c = ⌈M / 4d⌉, as in the FlashAttention paper, or ⌊M / 4d⌋, and B_r = min(B_c, d).
Blocks blocks_for(int64_t fast_elements, int64_t dim, bool round_up);

// The counted matrices. kState is m and l of each query, or the log-sum-exp computed from them.
enum Matrix { kQ, kK, kV, kS, kP, kO, kState, kMatrices };
using Elements = std::array<int64_t, kMatrices>;

// One pair of a query tile and a key tile, with the elements loaded before it and stored after it.
struct Visit {
  int pass;  // 0, or 0 to 2 for plain attention
  Range queries, keys;
  Elements loads, stores;
};

// Traffic between slow and fast memory. Loads and stores are counted in tiles. K and V count as one
// tile, and so do O, m and l.
struct LoopTraffic {
  int64_t q_loads = 0, kv_loads = 0, o_loads = 0, o_stores = 0;
  int64_t o_starts = 0;  // O = 0, l = 0, m = −inf: in slow memory (kv_outer) or fast memory
                         // (q_outer)
  int64_t elements_read = 0, elements_written = 0;
  std::vector<Visit> visits;
};

// O, m and l of one tile of queries.
struct OutputTile {
  OutputTile(int64_t rows, int64_t dim);  // O = 0, l = 0, m = −inf
  std::vector<float> m, l;                // [rows]
  std::vector<float> o;                   // [rows, dim]
};

// The result of one pair of a query tile and a key tile.
struct LoopStep {
  Range queries, keys;
  fa::View<const float> s;                   // [rows, cols], where keys past the end are undefined
  const std::vector<float>&m_tile, &l_tile;  // over this key tile only
  const OutputTile &before, &after;
};
using LoopObserver = std::function<void(const LoopStep&)>;

// One head, with q and o [len_q, dim], k and v [len_kv, dim], lse [len_q]. `causal` needs len_q =
// len_kv.
struct HeadTensors {
  fa::View<const float> q, k, v;
  float scale;
  fa::View<float> o;
  std::vector<float>& lse;
  bool causal = false;
};

// In FlashAttention-1, the outer loop runs over keys, the inner loop over queries. O, m and l are
// stored in slow memory after every visit, and O is always normalized. The first `resident` tiles
// of O stay in fast memory.
LoopTraffic kv_outer(const HeadTensors& head, Blocks blocks, int64_t resident = 0,
                     const LoopObserver& observe = {});

// In FlashAttention-2, the outer loop runs over queries, the inner loop over keys. O stays in fast
// memory until it is finished.
LoopTraffic q_outer(const HeadTensors& head, Blocks blocks, const LoopObserver& observe = {});

// Plain attention: S = Q @ K.T, P = softmax(S), O = P @ V, with S and P in slow memory. A mask
// hides scores, but no tile is skipped.
LoopTraffic three_passes(const HeadTensors& head, Blocks blocks);

}  // namespace ch02
