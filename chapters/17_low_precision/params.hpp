#pragma once
// The parameters of the kernels, made from the host's arguments.

#include <algorithm>
#include <string>

#include "chapters/17_low_precision/breaks.hpp"
#include "chapters/17_low_precision/groups.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/mask.hpp"

namespace FA_BACKEND::ch17 {

using namespace ::ch17;

// A block has 128 queries and a warp 32 of them. block_kv is the number of keys per tile, the
// largest without spills on sm_90.
constexpr int BLOCK_Q = 128, WARP_Q = 32;
FA_HOST_DEVICE constexpr int block_kv(int64_t dim) { return dim == 64 ? 64 : 48; }

// A thread holds the queries that are equal modulo 8, and a pair of each 8 keys, which share a
// scale. (SageAttention2's groups.)
constexpr Groups Q_GROUPS{WARP_Q, 8, 1};
FA_HOST_DEVICE constexpr Groups k_groups(int64_t dim) { return {block_kv(dim), 4, 2}; }

// A matrix in 8 bits: [heads, rows, HEAD_DIM] numbers, and their scales.
struct Quantized {
  int8_t* numbers;
  float* scales;  // [heads, num_scales(rows)]
  int rows;
};

struct Params {
  Quantized Q, K;
  const bf16* V;            // [heads / group, len_kv, HEAD_DIM]
  bf16* O;                  // [heads, len_q, HEAD_DIM]
  float* LSE;               // [heads, len_q], or null
  const float* LSE_offset;  // [heads, len_q], effect of K's mean, or null
  int group;                // `group` consecutive query heads share a head of K and V
  float scale_log2;         // e^x = 2^(x log2 e)
  Mask mask;
};

FA_HOST_DEVICE constexpr int64_t num_scales(Groups groups, int64_t rows) {
  return (rows + groups.tile - 1) / groups.tile * groups.of_a_tile;
}

// The parts of the workspace, one after another, each at a multiple of 256 bytes. With a null
// workspace, it only computes the size.
struct Workspace {
  int8_t *Q, *K;
  float *Q_scales, *K_scales;
  float* largest;  // [heads, tiles], of Q or of K, max |x| of a tile
  float* K_sums;   // [heads, chunks, HEAD_DIM], sums of CHUNK keys
  float* K_mean;   // [heads, HEAD_DIM]
  float* LSE_offset;
  int64_t bytes;
};

constexpr int CHUNK = 512;  // keys that one block sums

inline Workspace workspace_of(float* base, const fa::Shape& s, int64_t kv_heads) {
  char* const start = reinterpret_cast<char*>(base);
  int64_t at = 0;
  const auto part = [&](int64_t bytes) {
    char* const here = start == nullptr ? nullptr : start + at;
    at += (bytes + 255) / 256 * 256;
    return here;
  };
  const auto floats = [&](int64_t count) {
    return reinterpret_cast<float*>(part(count * int64_t{sizeof(float)}));
  };
  const int64_t q_heads = s.batch * s.heads, k_heads = s.batch * kv_heads;
  Workspace w{};
  w.Q = reinterpret_cast<int8_t*>(part(q_heads * s.q * s.dim));
  w.K = reinterpret_cast<int8_t*>(part(k_heads * s.kv * s.dim));
  w.Q_scales = floats(q_heads * num_scales(Q_GROUPS, s.q));
  const Groups k_tiles = k_groups(s.dim);
  w.K_scales = floats(k_heads * num_scales(k_tiles, s.kv));
  w.largest = floats(std::max(q_heads * ((s.q + Q_GROUPS.tile - 1) / Q_GROUPS.tile),
                              k_heads * ((s.kv + k_tiles.tile - 1) / k_tiles.tile)));
  w.K_sums = floats(k_heads * ((s.kv + CHUNK - 1) / CHUNK) * s.dim);
  w.K_mean = floats(k_heads * s.dim);
  w.LSE_offset = floats(q_heads * s.q);
  w.bytes = at;
  return w;
}

inline Mask mask_of(const fa::ForwardArgs& args) {
  const auto limit = [](int64_t side) {
    return side < 0 || side > UNLIMITED ? UNLIMITED : static_cast<int>(side);
  };
  const int len_q = static_cast<int>(args.q.shape[2]), len_kv = static_cast<int>(args.k.shape[2]);
  return {len_kv, len_kv - len_q, limit(args.window_left), limit(args.window_right)};
}

// Returns a grid with one block per tile of each head.
inline Dim3 grid_of(int64_t heads, int64_t rows, int tile) {
  constexpr int64_t MOST = 65535;  // limit of a grid's second dimension
  const int64_t tiles = (rows + tile - 1) / tile;
  if (tiles > MOST) {
    throw fa::InputError(std::to_string(tiles) + " tiles of " + std::to_string(tile) +
                         " rows: up to 65535 in this chapter");
  }
  return {static_cast<int>(heads), static_cast<int>(tiles)};
}

}  // namespace FA_BACKEND::ch17
