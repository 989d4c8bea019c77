#pragma once
// The parameters of the FP8 kernels, made from the host's arguments.

#include <algorithm>
#include <string>

#include "chapters/23_fp8/breaks.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/mask.hpp"

namespace FA_BACKEND::ch23 {

using fa::e4m3;

constexpr int CONSUMERS = 2, WARPGROUP_Q = 64, BLOCK_Q = CONSUMERS * WARPGROUP_Q;
constexpr int BLOCK_KV = 128;
constexpr int STAGES = 2;   // buffers of K and of V
constexpr int MMA_K8 = 32;  // inner size of an 8-bit wgmma

// Facts about a warpgroup's queries or a tile of keys, which are the factor of its values, and the
// norm of its longest row.
struct alignas(8) Facts {
  float scale, norm;
};

// Q, K and V in 8 bits. V is transposed, and its keys are in another order (order.hpp).
struct Params {
  TensorMap Q_map, K_map, V_map;  // [heads, len_q, D], [kv_heads, len_kv, D], [kv_heads, D, padded]
  const Facts *Q_facts, *K_facts;  // [heads, warpgroups], [kv_heads, tiles]
  const float *V_scales, *V_mean;  // [kv_heads, D]
  const float* LSE_offset;         // [heads, len_q], effect of K's mean on the scores, or null
  TensorMap O_map;                 // [heads, len_q, D], a box is a warp's rows and 64 columns
  int* claimed;                    // tiles of queries claimed beyond each block's first
  float* LSE;                      // [heads, len_q], or null
  int heads, group;                // `group` consecutive query heads share a head of K and V
  int q_tiles, together;           // heads whose K and V the L2 cache holds at the same time
  int stay;  // tiles that O stays in the tensor core before it is added to the sums
  int len_q;
  float scale_log2;  // e^x = 2^(x log2 e)
  Mask mask;
};

// A tile of queries, in the order of chapter 16: heads are in groups whose K and V fit into L2, and
// in each group, the tiles at the end of the sequence come first, because they see the most keys.
struct Work {
  int head, first_row;
};

FA_DEVICE Work work_of(const Params& p, int index) {
  const int first_head = index / (p.together * p.q_tiles) * p.together;
  const int heads_left = p.heads - first_head;
  const int group_heads = heads_left < p.together ? heads_left : p.together;
  const int in_group = index - first_head * p.q_tiles;
  return {first_head + in_group % group_heads, (p.q_tiles - 1 - in_group / group_heads) * BLOCK_Q};
}

FA_DEVICE Tiles<BLOCK_KV> tiles_of(const Params& p, int first_row) {
  const int end_row = first_row + BLOCK_Q < p.len_q ? first_row + BLOCK_Q : p.len_q;
  return Tiles<BLOCK_KV>(p.mask, first_row, end_row - 1);
}

// The producer describes a tile of queries to the consumers, as in chapter 21.
struct alignas(16) Ticket {
  enum Word { INDEX, FIRST_ROW, HEAD, KV_HEAD };
  int words[4];
};

// Two adjacent channels of V.
struct alignas(8) Pair {
  float value[2];
};

// Returns the next tile of queries for this block. Each tile is followed by one claim, and the last
// of these sets the counter to 0 again, so that the kernel can run again on the same Q, K and V.
FA_DEVICE int claim(const Params& p) {
  const int claimed = atomic_add(p.claimed, 1);
  const int tiles = p.q_tiles * p.heads;
  if (claimed == tiles - 1) atomic_add(p.claimed, -tiles);
  return grid_size().x + claimed;
}

// The parts of the workspace, one after another, each at a multiple of 256 bytes. With a null
// workspace, it only computes the size.
struct Workspace {
  e4m3 *Q, *K, *V;
  Facts *Q_facts, *K_facts;
  float* column_sums;  // [2 kv_heads, chunks, 3, D]: sum, minimum and maximum of CHUNK rows
  float *K_mean, *V_mean, *V_scales;  // [kv_heads, D]
  float* LSE_offset;
  int* claimed;
  int64_t bytes;
};

constexpr int CHUNK = 512;  // rows that one block sums

// Every how many keys one counts for K's mean.
FA_HOST_DEVICE constexpr int step_of_K(int64_t len_kv) { return len_kv < 8192 ? 1 : 8; }

FA_HOST_DEVICE constexpr int64_t padded(int64_t len_kv) {
  return (len_kv + BLOCK_KV - 1) / BLOCK_KV * BLOCK_KV;
}

inline Workspace workspace_of(float* base, const fa::Shape& s, int64_t kv_heads) {
  char* const start = reinterpret_cast<char*>(base);
  int64_t at = 0;
  const auto part = [&]<class T>(T*& place, int64_t count) {
    place = start == nullptr ? nullptr : reinterpret_cast<T*>(start + at);
    at += (count * int64_t{sizeof(T)} + 255) / 256 * 256;
  };
  const int64_t q_heads = s.batch * s.heads, k_heads = s.batch * kv_heads;
  Workspace w{};
  part(w.Q, q_heads * s.q * s.dim);
  part(w.K, k_heads * s.kv * s.dim);
  part(w.V, k_heads * s.dim * padded(s.kv));
  part(w.Q_facts, q_heads * ((s.q + WARPGROUP_Q - 1) / WARPGROUP_Q));
  part(w.K_facts, k_heads * (padded(s.kv) / BLOCK_KV));
  part(w.column_sums, 2 * k_heads * ((s.kv + CHUNK - 1) / CHUNK) * 3 * s.dim);
  part(w.K_mean, k_heads * s.dim);
  part(w.V_mean, k_heads * s.dim);
  part(w.V_scales, k_heads * s.dim);
  part(w.LSE_offset, q_heads * s.q);
  part(w.claimed, 1);
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

}  // namespace FA_BACKEND::ch23
