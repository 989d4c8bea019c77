#pragma once
// Chapter 13: wgmma.
//
// Tiles come as in chapter 12. The product is one instruction of four warps, a warpgroup. It reads
// K, V and Q from shared memory by itself, so no ldmatrix is left. A 64-bit descriptor specifies
// the tile's layout. Two warpgroups share each tile of K and V.
//
//   ./learn diff 13       ch13_wgmma --shape 1,1,128,512,128 --profile
//
// 538 TFLOP/s at (2,16,8192,8192,128) on an H200, chapter 12 424 in the same run. For sm_90a.

#include "breaks.hpp"
#include "common/kernels/epilogue.hpp"
#include "common/kernels/geometry.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/softmax.hpp"

namespace FA_BACKEND::ch13 {

// [anchor: tile]
// A tile of HEIGHT rows in shared memory, as panels of 64 columns, which are neighbours in the
// matrix and follow each other here. Each of their rows has 128 bytes, swizzled. wgmma multiplies
// 16 columns or 16 rows of it at a time, and takes a descriptor of them.
template <int HEIGHT>
struct Tile {
  static constexpr uint32_t ROW_BYTES = 128, GROUP_BYTES = 8 * ROW_BYTES;
  static constexpr uint32_t PANEL_BYTES = HEIGHT * ROW_BYTES;
  static constexpr int PANEL_MMAS = 64 / MMA_K;  // 16 columns each

  // All rows, columns 16 mma_d to 16 mma_d + 15, where the sum runs along a row. The next 8 rows
  // are GROUP_BYTES away.
  FA_DEVICE static uint64_t columns(uint32_t smem, int mma_d) {
    return advance_descriptor(wgmma_descriptor(smem, 16, GROUP_BYTES, Swizzle::bytes_128),
                              mma_d / PANEL_MMAS * PANEL_BYTES + mma_d % PANEL_MMAS * 32);
  }
  // Rows 16 mma_kv to 16 mma_kv + 15, all columns, where the sum runs down a column. The next 8
  // rows are GROUP_BYTES away, the next 64 columns `next_panel`.
  FA_DEVICE static uint64_t rows(uint32_t smem, int mma_kv, uint32_t next_panel = PANEL_BYTES) {
    return advance_descriptor(wgmma_descriptor(smem, next_panel, GROUP_BYTES, Swizzle::bytes_128),
                              mma_kv * MMA_K * ROW_BYTES);
  }
};
// [/anchor: tile]

// [anchor: query_key]
// S = Q @ K.T   [64, BLOCK_KV]
// One instruction for 16 columns of Q and K. The first one sets S, the others add to it.
template <int HEAD_DIM, int BLOCK_Q, int MMAS_KV, class Breaks>
FA_DEVICE void multiply_query_key(float (&S_rmem)[1][MMAS_KV][4],
                                  uint32_t Q_smem,  // this warpgroup's rows of the tile
                                  uint32_t K_smem, Breaks breaks) {
  using QTile = Tile<BLOCK_Q>;
  using KTile = Tile<MMAS_KV * MMA_N>;
  wgmma_fence();
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d)
    wgmma<bf16>(S_rmem[0], QTile::columns(Q_smem, mma_d), KTile::columns(K_smem, mma_d), mma_d > 0);
  wgmma_commit();
  // Until here the tensor cores may still write S.
  if (!breaks.has(fa::NO_WGMMA_WAIT)) wgmma_wait<0>(S_rmem[0]);
}
// [/anchor: query_key]

// m' = max(m, rowmax S),   O *= exp(m - m'),   l *= exp(m - m')
// Any m is correct if O and l are summed with the same m and no exponential overflows. So m stays
// until a weight would exceed 2^8, which is rare after the first tiles. To detect that, each lane
// checks its own columns and the warp votes. Shuffles are needed only for tiles in which m changes.
template <int MMAS_Q, int MMAS_KV, int MMAS_D, class Breaks>
FA_DEVICE void raise_row_max(float (&m)[MMAS_Q][2], float (&l)[MMAS_Q][2],
                             float (&O_rmem)[MMAS_Q][MMAS_D][4],
                             float (&S_rmem)[MMAS_Q][MMAS_KV][4], float scale_log2, Breaks breaks) {
  constexpr float MAX_GROWTH = 8.0f;  // log2, so that weights reach 256, far from any overflow
  float row_max[MMAS_Q][2];
  bool grew = breaks.has(fa::NO_RESCALE);
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {  // row lane/4, then row lane/4 + 8
      row_max[mma_q][half] = NEG_INF;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
        const float* c = &S_rmem[mma_q][mma_kv][half * 2];
        row_max[mma_q][half] = max(row_max[mma_q][half], max(c[0], c[1]));
      }
      // In the first tile m = -inf. Written so that the NaN of -inf - (-inf) counts as grown.
      grew |= !((row_max[mma_q][half] - m[mma_q][half]) * scale_log2 <= MAX_GROWTH);
      grew |= !is_foldable(m[mma_q][half], scale_log2);
    }
  if (!warp_any(grew)) return;

  float rescale[MMAS_Q][2];
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const float tile_max =
          quad_reduce(row_max[mma_q][half], breaks, [](float a, float b) { return max(a, b); });
      const float m_old = m[mma_q][half];
      float m_new = max(m_old, tile_max);
      if (breaks.has(fa::NO_RESCALE)) m_new = tile_max;  // each tile uses its own maximum
      if (breaks.has(fa::NO_MAX)) m_new = 0.0f;
      m[mma_q][half] = m_new;
      rescale[mma_q][half] =
          breaks.has(fa::NO_RESCALE) ? 1.0f : exp2((m_old - subtrahend(m_new)) * scale_log2);
      l[mma_q][half] *= rescale[mma_q][half];
    }
  scale_rows(O_rmem, rescale);
  subtract_large_max(S_rmem, m, scale_log2);
}

// P = exp(scale (S - m)) for 16 keys, as operand A,   l += this lane's part of rowsum P
// exp(scale (s - m)) = 2^(s scale_log2 - m scale_log2): one FMA and one exponential.
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void exponentiate(uint32_t (&P_rmem)[MMAS_Q][4], float (&l)[MMAS_Q][2],
                            const float (&S_rmem)[MMAS_Q][MMAS_KV][4], int mma_kv,
                            const float (&m)[MMAS_Q][2], float scale_log2) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int i = 0; i < 4; ++i) {
      const int half = i % 2;
      const float* s = &S_rmem[mma_q][mma_kv * 2 + i / 2][half * 2];
      const float m_log2 = folded_max(m[mma_q][half], scale_log2);
      const float p0 = exp2(fma(s[0], scale_log2, -m_log2));
      const float p1 = exp2(fma(s[1], scale_log2, -m_log2));
      l[mma_q][half] += p0 + p1;
      P_rmem[mma_q][i] = pack_bf16x2(p0, p1);
    }
}

// [anchor: weights_value]
// O += exp(S - m) @ V   [64, HEAD_DIM]
// P is operand A, from registers, because a lane needs the elements of P whose S it has. V is not
// transposed, because its descriptor says that the sum runs down the columns. The exponentials of
// the next 16 keys do not wait for the product of these, so both units work at the same time.
template <int MMAS_Q, int MMAS_D, int MMAS_KV, class Breaks>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4], float (&l)[MMAS_Q][2],
                                      const float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                      const float (&m)[MMAS_Q][2], float scale_log2,
                                      uint32_t V_smem, Breaks breaks) {
  using VTile = Tile<MMAS_KV * MMA_N>;
  const uint32_t next_panel = breaks.has(fa::K_DESCRIPTOR_FOR_V) ? 16 : VTile::PANEL_BYTES;
  uint32_t P_rmem[MMAS_KV / 2][MMAS_Q][4];  // for all keys, as wgmma may read it until the wait
  for (int mma_kv = 0; mma_kv < MMAS_KV / 2; ++mma_kv) {
    exponentiate(P_rmem[mma_kv], l, S_rmem, mma_kv, m, scale_log2);
    wgmma_fence();  // ordinary instructions have written P
    wgmma<bf16, Major::mn>(O_rmem[0], P_rmem[mma_kv][0], VTile::rows(V_smem, mma_kv, next_panel),
                           true);
    wgmma_commit();
  }
  wgmma_wait<0>(O_rmem[0]);
}
// [/anchor: weights_value]

// The second number requests at least one block per SM, so that the compiler may use all 255
// registers of a thread.
template <int HEAD_DIM, int WARPGROUPS, int BLOCK_KV, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(128 * WARPGROUPS, 1)
void attention(FA_GRID_CONSTANT const TensorMap Q, FA_GRID_CONSTANT const TensorMap K,
               FA_GRID_CONSTANT const TensorMap V,
               bf16* O,  // [batch*heads, len_q, HEAD_DIM]
               int len_q, int len_kv, float scale_log2, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * WARPGROUPS;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM * sizeof(bf16);
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % 64 == 0, "whole mma tiles, whole panels");

  // One block per BLOCK_Q rows of each head. Blocks of one head are adjacent, so that the K and V
  // which all of them read come from the L2 cache.
  const int num_q_tiles = ceil_div(len_q, BLOCK_Q);
  const int num_kv_tiles = ceil_div(len_kv, BLOCK_KV);
  const int batch_head = block_index() / num_q_tiles;
  const int q_tile = block_index() % num_q_tiles;

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + Q_TILE_BYTES;
  const uint32_t V_smem = K_smem + 2 * KV_TILE_BYTES;
  const uint32_t Q_full = V_smem + 2 * KV_TILE_BYTES;  // mbarriers, 8 bytes each
  const uint32_t K_full = Q_full + 8;                  // one per buffer
  const uint32_t V_full = K_full + 16;
  const auto buffer = [](uint32_t smem, int kv_tile) { return smem + kv_tile % 2 * KV_TILE_BYTES; };
  const uint32_t Q_warpgroup = Q_smem + warp_index() / 4 * 64 * Tile<BLOCK_Q>::ROW_BYTES;

  float O_rmem[1][HEAD_DIM / MMA_N][4] = {};
  float m[1][2];       // row maximum, up to 8 too small in log2
  float l[1][2] = {};  // running row sum of this lane's columns
  for (auto& row : m) row[0] = row[1] = NEG_INF;

  // Announces how many bytes will come (a whole tile, even at the end) and issues the load.
  const auto load = [&](uint32_t smem, const TensorMap& map, int first_row, uint32_t bytes,
                        uint32_t full) {
    mbarrier_arrive_expect_tx(full, bytes);
    tma_load_4d(smem, map, 0, first_row, 0, batch_head, full);
  };
  const auto load_K = [&](int kv_tile) {
    load(buffer(K_smem, kv_tile), K, kv_tile * BLOCK_KV, KV_TILE_BYTES, K_full + kv_tile % 2 * 8);
  };
  const auto load_V = [&](int kv_tile) {
    load(buffer(V_smem, kv_tile), V, kv_tile * BLOCK_KV, KV_TILE_BYTES, V_full + kv_tile % 2 * 8);
  };

  if (thread_index() == 0) {
    for (int i = 0; i < 5; ++i) mbarrier_init(Q_full + i * 8, 1);  // one arrival: this thread's
    fence_mbarrier_init();                                         // the copy engine sees them
    load(Q_smem, Q, q_tile * BLOCK_Q, Q_TILE_BYTES, Q_full);
    load_K(0);
    load_V(0);
  }
  block_sync();  // no thread waits on an mbarrier before it is initialized
  mbarrier_wait(Q_full, 0);

  // [anchor: main_loop]
  for (int kv_tile = 0; kv_tile < num_kv_tiles; ++kv_tile) {
    // All warps have multiplied by the previous tile's K and V, so the next may overwrite them.
    const bool arrives = !breaks.has(fa::DIVERGENT_BARRIER) || warp_index() == 0;
    if (!breaks.has(fa::MISSING_BARRIER) && arrives) block_sync();
    if (kv_tile + 1 < num_kv_tiles && warp_index() == 0 && elect_one()) {
      load_K(kv_tile + 1);
      load_V(kv_tile + 1);
    }

    float S_rmem[1][BLOCK_KV / MMA_N][4];
    const int parity = kv_tile / 2 % 2;  // each buffer is filled every second tile
    if (!breaks.has(fa::MISSING_WAIT)) mbarrier_wait(K_full + kv_tile % 2 * 8, parity);
    multiply_query_key<HEAD_DIM, BLOCK_Q>(S_rmem, Q_warpgroup, buffer(K_smem, kv_tile),
                                          breaks);  // S = Q @ K.T
    const int keys_left = len_kv - kv_tile * BLOCK_KV;
    if (keys_left < BLOCK_KV && !breaks.has(fa::UNMASKED_TAIL)) mask_tail(S_rmem, keys_left);

    raise_row_max(m, l, O_rmem, S_rmem, scale_log2, breaks);  // m' = max(m, rowmax S), if needed

    mbarrier_wait(V_full + kv_tile % 2 * 8, parity);
    multiply_weights_value(O_rmem, l, S_rmem, m, scale_log2, buffer(V_smem, kv_tile),
                           breaks);  // O += exp(S - m) @ V
  }
  // [/anchor: main_loop]

  for (auto& row : l)
    for (float& sum : row) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
  const int first_query = q_tile * BLOCK_Q + warp_index() * MMA_M;
  O += (int64_t{batch_head} * len_q + first_query) * HEAD_DIM;
  store_output(O, O_rmem, l, len_q - first_query);
}

template <int HEAD_DIM, int WARPGROUPS = 2, int BLOCK_KV = 128, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  check_scale(args.scale);
  // Views a tensor [batch*heads, len, HEAD_DIM] as panels of 64 columns: one box is a whole tile.
  const auto map = [](const fa::TensorRef& tensor, int rows, Swizzle swizzle) {
    const auto [batch, heads, len, dim] = tensor.shape;
    return make_tensor_map(
        static_cast<const bf16*>(tensor.data), {64, len, HEAD_DIM / 64, batch * heads},
        {HEAD_DIM * 2, 128, len * HEAD_DIM * 2}, {64, rows, HEAD_DIM / 64, 1}, swizzle);
  };
  const Swizzle K_swizzle = breaks.has(fa::SWIZZLE_ONE_SIDE) ? Swizzle::none : Swizzle::bytes_128;
  constexpr int BLOCK_Q = 64 * WARPGROUPS;
  constexpr int SMEM_ROWS = BLOCK_Q + 4 * BLOCK_KV;              // Q, then K and V twice
  constexpr size_t SMEM = SMEM_ROWS * HEAD_DIM * sizeof(bf16) +  // and
                          1024 + 5 * 8;                          // to align it, and five mbarriers
  launch(attention<HEAD_DIM, WARPGROUPS, BLOCK_KV, Breaks>, num_blocks(args, BLOCK_Q),
         128 * WARPGROUPS, SMEM, map(args.q, BLOCK_Q, Swizzle::bytes_128),
         map(args.k, BLOCK_KV, K_swizzle), map(args.v, BLOCK_KV, Swizzle::bytes_128),
         static_cast<bf16*>(args.o.data), static_cast<int>(args.q.shape[2]),
         static_cast<int>(args.k.shape[2]), args.scale * 1.44269504f, breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) {
    if (args.options[0] == 1) return launch_attention<head_dim, 1>(args, breaks);  // --warpgroups
    launch_attention<head_dim>(args, breaks);
  });
}

}  // namespace FA_BACKEND::ch13
