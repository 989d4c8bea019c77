#pragma once
// The parameters of a backward kernel, and the part of the work that a block takes.

#include <algorithm>
#include <string>

#include "breaks.hpp"
#include "common/kernels/backward.hpp"
#include "common/kernels/launch.hpp"

// Chapter 22 includes these steps in its own namespace, so that no two objects define the same
// name.
#ifndef FA_CH10
#define FA_CH10 ch10
#endif

namespace FA_BACKEND::FA_CH10 {

constexpr int BLOCK_Q = fa::BACKWARD_TILE_Q;  // queries per tile
constexpr int BLOCK_KV = 128;                 // keys per tile
constexpr int ELEMENT = 2;                    // bytes of a bf16 or an fp16
constexpr float LOG2_E = 1.44269504f;
constexpr int EVERY_KEY = 1 << 30;  // a diagonal past any key

// A tensor [batch, heads, len, dim] with the distances of its rows, heads and batches in bytes. A
// row itself is contiguous.
struct Tensor {
  char* data;
  int64_t batch, head;
  uint32_t row;
};

struct Params {
  Tensor Q, K, V, O, dO, dQ, dK, dV;
  const float* LSE;     // [batch, heads, len_q]
  float *LSE_log2, *D;  // [batch, heads, q_tiles * BLOCK_Q]
  float* dQ_sum;        // [batch, heads, q_tiles][BLOCK_Q * HEAD_DIM], by mma tiles, or null
  int* turns;           // [batch, heads, q_tiles]: number of blocks that have added to the tile of
                        // dQ
  int heads, group;     // `group` consecutive query heads share a head of K and V
  int batches, batch_kv_heads;  // the latter: batches * heads / group
  int len_q, len_kv, dim;       // dim: up to HEAD_DIM; columns past it are zeros
  int q_tiles, kv_tiles;
  int diagonal;  // query i sees the keys up to i + diagonal
  bool deterministic;
  float scale, scale_log2;
  const float* sinks;               // [heads], or null
  float* d_sinks;                   // [heads], or null
  const int *q_starts, *kv_starts;  // packed, in chapter 22 only
  int sequences;
  void* summands = nullptr;  // LSE and D as chapter 22 adds them, 16 bytes per row
};

// Throws InputError for problems that these kernels cannot address, and for breaks in fp16.
inline Params params_of(const fa::BackwardArgs& args) {
  if (args.breaks != 0 && args.q.dtype != fa::Dtype::bf16) {
    throw fa::InputError("--break: this chapter has its breaks in bf16 only");
  }
  check_scale_and_strides(
      args.scale, {&args.q, &args.k, &args.v, &args.o, &args.d_o, &args.dq, &args.dk, &args.dv});
  const auto tensor = [](const fa::TensorRef& ref) {
    return Tensor{static_cast<char*>(ref.data), ref.strides[0] * ELEMENT, ref.strides[1] * ELEMENT,
                  static_cast<uint32_t>(ref.strides[2] * ELEMENT)};
  };
  const auto [batch, heads, len_q, dim] = args.q.shape;
  const int64_t len_kv = args.k.shape[2], kv_heads = args.k.shape[1];
  const int64_t q_tiles = (len_q + BLOCK_Q - 1) / BLOCK_Q;
  const int64_t rows = batch * heads * q_tiles * BLOCK_Q;
  float* const LSE_log2 = args.workspace;
  float* const dQ_sum = LSE_log2 + 2 * rows;
  float* const turns = dQ_sum + rows * (dim <= 64 ? 64 : 128);
  return {.Q = tensor(args.q),
          .K = tensor(args.k),
          .V = tensor(args.v),
          .O = tensor(args.o),
          .dO = tensor(args.d_o),
          .dQ = tensor(args.dq),
          .dK = tensor(args.dk),
          .dV = tensor(args.dv),
          .LSE = static_cast<const float*>(args.lse.data),
          .LSE_log2 = LSE_log2,
          .D = LSE_log2 + rows,
          .dQ_sum = dQ_sum,
          .turns = reinterpret_cast<int*>(turns),
          .heads = static_cast<int>(heads),
          .group = static_cast<int>(heads / kv_heads),
          .batches = static_cast<int>(batch),
          .batch_kv_heads = static_cast<int>(batch * kv_heads),
          .len_q = static_cast<int>(len_q),
          .len_kv = static_cast<int>(len_kv),
          .dim = static_cast<int>(dim),
          .q_tiles = static_cast<int>(q_tiles),
          .kv_tiles = static_cast<int>((len_kv + BLOCK_KV - 1) / BLOCK_KV),
          .diagonal = args.causal ? static_cast<int>(len_kv - len_q) : EVERY_KEY,
          .deterministic = args.options[1] != 0,
          .scale = args.scale,
          .scale_log2 = args.scale * LOG2_E,
          .sinks = args.sinks,
          .d_sinks = args.d_sinks,
          .q_starts = args.q_starts,
          .kv_starts = args.kv_starts,
          .sequences = static_cast<int>(args.sequences)};
}

// One block for each tile of keys of each head of K and V. It walks over the tiles of queries that
// see one of its keys, of all the heads that share them.
//
// Blocks of four heads run side by side, so that their Q and dO share the L2 cache. If causal, the
// tile that most queries see comes first, so that the last blocks are short.
constexpr int HEADS_AT_ONCE = 4;

struct Work {
  int batch, kv_head, kv_tile;
  int first_q_tile, count;  // first tile in each head, and their number in all heads

  FA_DEVICE explicit Work(const Params& p) {
    const auto [x, y, z] = block_index_3d();
    const int head = z * HEADS_AT_ONCE + x, kv_heads = p.heads / p.group;
    batch = shfl(head / kv_heads, 0);  // equal in all lanes, so it takes one register per warp
    kv_head = shfl(head % kv_heads, 0);
    // If deterministic, in the order of the additions, see turn_of.
    kv_tile = p.deterministic ? p.kv_tiles - 1 - y : y;
    const int first_query = kv_tile * BLOCK_KV - p.diagonal;
    first_q_tile = first_query > 0 ? first_query / BLOCK_Q : 0;
    const bool exists = head < p.batch_kv_heads && first_q_tile < p.q_tiles;
    count = exists ? (p.q_tiles - first_q_tile) * p.group : 0;
  }
};

// Throws InputError if there are more blocks than a grid holds.
inline Dim3 grid_of(const Params& p) {
  constexpr int MOST = 65535;  // limit of a grid's second and third dimension
  const Dim3 grid{HEADS_AT_ONCE, p.kv_tiles,
                  (p.batch_kv_heads + HEADS_AT_ONCE - 1) / HEADS_AT_ONCE};
  const int64_t q_tiles = int64_t{p.batches} * p.heads * p.q_tiles;
  if (std::max({grid.y, grid.z, p.batches, p.q_tiles / 2}) > MOST ||
      q_tiles > std::numeric_limits<int>::max()) {
    throw fa::InputError(std::to_string(p.batches) + " x " + std::to_string(p.heads) +
                         " heads of " + std::to_string(p.len_q) + " queries and " +
                         std::to_string(p.len_kv) +
                         " keys: more blocks than this chapter's grids hold");
  }
  return grid;
}

// The tile of queries that a block processes, in the order of all tiles of one head, then those of
// the next.
struct Place {
  int head, q_tile;

  FA_DEVICE Place(const Work& work, const Params& p)
      : head(work.kv_head * p.group), q_tile(work.first_q_tile) {}
  FA_DEVICE Place(int head_, int q_tile_) : head(head_), q_tile(q_tile_) {}
  FA_DEVICE Place before(const Work& work, const Params& p) const {
    const bool first = q_tile == work.first_q_tile;
    return {first ? head - 1 : head, first ? p.q_tiles - 1 : q_tile - 1};
  }
  FA_DEVICE void advance(const Work& work, const Params& p) {
    const bool last = q_tile + 1 == p.q_tiles;
    head += last ? 1 : 0;
    q_tile = last ? work.first_q_tile : q_tile + 1;
  }
};

// Returns the index of a tile of queries in LSE_log2, D and dQ_sum.
FA_DEVICE int64_t tile_index(const Params& p, int batch, int head, int q_tile) {
  return (int64_t{batch} * p.heads + head) * p.q_tiles + q_tile;
}

}  // namespace FA_BACKEND::FA_CH10
