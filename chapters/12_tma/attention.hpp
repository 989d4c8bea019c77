#pragma once
// Chapter 12: tiles by TMA.
//
// The arithmetic is that of chapter 08. One thread issues the load of a tile with one instruction.
// The copy engine computes the addresses, swizzles, writes zeros where no row exists, and counts
// the bytes on an mbarrier, on which each thread that needs the tile waits. So one of three block
// barriers per tile is left.
//
//   ./learn diff 12       ch12_tma --shape 1,1,128,512,128 --profile
//
// 405 TFLOP/s at (2,16,8192,8192,128) on an H200, chapter 08 379 in the same run. For sm_90a.

#include "breaks.hpp"
#include "common/kernels/epilogue.hpp"
#include "common/kernels/geometry.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/softmax.hpp"

namespace FA_BACKEND::ch12 {

// [anchor: tile]
// A tile of HEIGHT rows in shared memory, as panels of 64 columns, which are neighbours in the
// matrix and follow each other here. Each of their rows has 128 bytes. TMA's 128-byte swizzle is
// the one of chapter 04 (chunk ^= row % 8).
template <int HEIGHT>
struct Tile {
  static constexpr uint32_t ROW_BYTES = 128;
  static constexpr uint32_t PANEL_BYTES = HEIGHT * ROW_BYTES;
  static constexpr int PANEL_MMAS = 64 / MMA_K;  // 16 columns each

  // Address of row `row`, columns 8 * chunk to 8 * chunk + 7; chunk < 2.
  FA_DEVICE static uint32_t at(uint32_t smem, uint32_t row, uint32_t chunk) {
    return smem + row * ROW_BYTES + ((chunk ^ row % 8) * 16);
  }
  // The address mma_d times 16 columns to the right. Because a tile begins at a multiple of 1024,
  // an address has the chunk's number in bits 4 to 6, so that one XOR moves it.
  FA_DEVICE static uint32_t right(uint32_t address, int mma_d) {
    return (address ^ (mma_d % PANEL_MMAS * MMA_K * sizeof(bf16))) +
           mma_d / PANEL_MMAS * PANEL_BYTES;
  }
};
// [/anchor: tile]

// S += Q @ K.T   [WARP_Q, BLOCK_KV]
// Operand B needs, for each key, adjacent elements along HEAD_DIM in a register, as in K's rows.
template <int HEAD_DIM, int BLOCK_Q, int MMAS_Q, int MMAS_KV>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                  uint32_t Q_smem,  // this warp's rows of the tile
                                  uint32_t K_smem) {
  using QTile = Tile<BLOCK_Q>;
  using KTile = Tile<MMAS_KV * MMA_N>;
  const uint32_t Q_lane = QTile::at(Q_smem, lane_index() % 16, lane_index() / 16);
  // keys 0-7, d 0-7 | keys 0-7, d 8-15 | keys 8-15, d 0-7 | keys 8-15, d 8-15
  const uint32_t K_lane =
      KTile::at(K_smem, lane_index() / 16 * 8 + lane_index() % 8, lane_index() / 8 % 2);
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d) {
    uint32_t Q_rmem[MMAS_Q][4];
    for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
      ldmatrix_x4(Q_rmem[mma_q], QTile::right(Q_lane, mma_d) + mma_q * MMA_M * QTile::ROW_BYTES);
    for (int mma_kv = 0; mma_kv < MMAS_KV; mma_kv += 2) {
      uint32_t K_rmem[4];
      ldmatrix_x4(K_rmem, KTile::right(K_lane, mma_d) + mma_kv * MMA_N * KTile::ROW_BYTES);
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16(Q_rmem[mma_q], {K_rmem[0], K_rmem[1]}, S_rmem[mma_q][mma_kv]);
        mma_m16n8k16(Q_rmem[mma_q], {K_rmem[2], K_rmem[3]}, S_rmem[mma_q][mma_kv + 1]);
      }
    }
  }
}

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

// O += exp(S - m) @ V   [WARP_Q, HEAD_DIM]
// The sum runs over keys, so operand B needs elements that are adjacent along the keys, but V's
// rows are contiguous along HEAD_DIM, so ldmatrix transposes each 8x8 matrix. The exponentials of
// the next 16 keys do not wait for the mma of these, because the two units work in parallel.
template <int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4], float (&l)[MMAS_Q][2],
                                      const float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                      const float (&m)[MMAS_Q][2], float scale_log2,
                                      uint32_t V_smem) {
  using VTile = Tile<MMAS_KV * MMA_N>;
  // keys 0-7, d 0-7 | keys 8-15, d 0-7 | keys 0-7, d 8-15 | keys 8-15, d 8-15
  const uint32_t V_lane = VTile::at(V_smem, lane_index() % 16, lane_index() / 16);
  for (int mma_kv = 0; mma_kv < MMAS_KV / 2; ++mma_kv) {
    uint32_t P_rmem[MMAS_Q][4];
    exponentiate(P_rmem, l, S_rmem, mma_kv, m, scale_log2);
    for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
      uint32_t V_rmem[4];
      ldmatrix_x4_trans(V_rmem,
                        VTile::right(V_lane, mma_d / 2) + mma_kv * MMA_K * VTile::ROW_BYTES);
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16(P_rmem[mma_q], {V_rmem[0], V_rmem[1]}, O_rmem[mma_q][mma_d]);
        mma_m16n8k16(P_rmem[mma_q], {V_rmem[2], V_rmem[3]}, O_rmem[mma_q][mma_d + 1]);
      }
    }
  }
}

// The second number requests at least one block per SM, so that the compiler may use all 255
// registers of a thread. Otherwise it may save registers and load fragments too late.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_KV, int NUM_WARPS, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(32 * NUM_WARPS, 1)
void attention(FA_GRID_CONSTANT const TensorMap Q, FA_GRID_CONSTANT const TensorMap K,
               FA_GRID_CONSTANT const TensorMap V,
               bf16* O,  // [batch*heads, len_q, HEAD_DIM]
               int len_q, int len_kv, float scale_log2, Breaks breaks) {
  constexpr int WARP_Q = BLOCK_Q / NUM_WARPS;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM * sizeof(bf16);
  static_assert(BLOCK_Q % (NUM_WARPS * MMA_M) == 0, "every warp owns whole 16-row mma tiles");
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % MMA_K == 0, "tiles are whole mma tiles");

  // One block per BLOCK_Q rows of each head. Blocks of one head are adjacent, so that the K and V
  // which all of them read come from the L2 cache.
  const int num_q_tiles = ceil_div(len_q, BLOCK_Q);
  const int num_kv_tiles = ceil_div(len_kv, BLOCK_KV);
  const int batch_head = block_index() / num_q_tiles;
  const int q_tile = block_index() % num_q_tiles;

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + Q_TILE_BYTES;
  const uint32_t V_smem = K_smem + 2 * KV_TILE_BYTES;
  const uint32_t Q_full = V_smem + KV_TILE_BYTES;  // mbarriers, 8 bytes each
  const uint32_t V_full = Q_full + 8;
  const uint32_t K_full = V_full + 8;  // one per buffer
  const auto buffer = [](uint32_t smem, int kv_tile) { return smem + kv_tile % 2 * KV_TILE_BYTES; };

  float O_rmem[WARP_Q / MMA_M][HEAD_DIM / MMA_N][4] = {};
  float m[WARP_Q / MMA_M][2];       // row maximum, up to 8 too small in log2
  float l[WARP_Q / MMA_M][2] = {};  // running row sum of this lane's columns
  for (auto& row : m) row[0] = row[1] = NEG_INF;

  // [anchor: loads]
  // Announces how many bytes will come (a whole tile, even at the end) and issues the load.
  const auto load = [&](uint32_t smem, const TensorMap& map, int len, int first_row, uint32_t bytes,
                        uint32_t full) {
    mbarrier_arrive_expect_tx(full, breaks.has(fa::EXPECT_TOO_LITTLE) ? bytes / 2 : bytes);
    if (breaks.has(fa::FLAT_MAP)) {
      tma_load_4d(smem, map, 0, batch_head * len + first_row, 0, 0, full);
    } else {
      tma_load_4d(smem, map, 0, first_row, 0, batch_head, full);
    }
  };
  const auto load_K = [&](int kv_tile) {
    load(buffer(K_smem, kv_tile), K, len_kv, kv_tile * BLOCK_KV, KV_TILE_BYTES,
         K_full + kv_tile % 2 * 8);
  };
  const auto load_V = [&](int kv_tile) {
    load(V_smem, V, len_kv, kv_tile * BLOCK_KV, KV_TILE_BYTES, V_full);
  };
  // [/anchor: loads]

  // [anchor: init]
  if (thread_index() == 0) {
    for (int i = 0; i < 4; ++i) mbarrier_init(Q_full + i * 8, 1);  // one arrival, this thread's
    if (!breaks.has(fa::NO_INIT_FENCE)) fence_mbarrier_init();     // for the copy engine
    load(Q_smem, Q, len_q, q_tile * BLOCK_Q, Q_TILE_BYTES, Q_full);
    load_K(0);
  }
  block_sync();  // no thread waits on an mbarrier before it is initialized
  mbarrier_wait(Q_full, 0);
  // [/anchor: init]

  // [anchor: main_loop]
  for (int kv_tile = 0; kv_tile < num_kv_tiles; ++kv_tile) {
    // All warps have read the previous tile's K and V, so this V and the next K may overwrite them.
    const bool arrives = !breaks.has(fa::DIVERGENT_BARRIER) || warp_index() == 0;
    if (!breaks.has(fa::MISSING_BARRIER) && arrives) block_sync();
    if (warp_index() == 0 && elect_one()) {
      load_V(kv_tile);
      if (kv_tile + 1 < num_kv_tiles) load_K(kv_tile + 1);
    }

    float S_rmem[WARP_Q / MMA_M][BLOCK_KV / MMA_N][4] = {};
    // Each buffer of K is filled every second tile, so its phase is kv_tile / 2.
    const int K_parity = breaks.has(fa::WRONG_PARITY) ? kv_tile % 2 : kv_tile / 2 % 2;
    if (!breaks.has(fa::MISSING_WAIT)) mbarrier_wait(K_full + kv_tile % 2 * 8, K_parity);
    multiply_query_key<HEAD_DIM, BLOCK_Q>(S_rmem, Q_smem + warp_index() * WARP_Q * 128,
                                          buffer(K_smem, kv_tile));  // S = Q @ K.T
    const int keys_left = len_kv - kv_tile * BLOCK_KV;
    if (keys_left < BLOCK_KV && !breaks.has(fa::UNMASKED_TAIL)) mask_tail(S_rmem, keys_left);

    raise_row_max(m, l, O_rmem, S_rmem, scale_log2, breaks);  // m' = max(m, rowmax S), if needed

    mbarrier_wait(V_full, kv_tile % 2);
    multiply_weights_value(O_rmem, l, S_rmem, m, scale_log2, V_smem);  // O += exp(S - m) @ V
  }
  // [/anchor: main_loop]

  for (auto& row : l)
    for (float& sum : row) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
  const int first_query = q_tile * BLOCK_Q + warp_index() * WARP_Q;
  O += (int64_t{batch_head} * len_q + first_query) * HEAD_DIM;
  store_output(O, O_rmem, l, len_q - first_query);
}

template <int HEAD_DIM, int BLOCK_Q = 128, int BLOCK_KV = HEAD_DIM == 64 ? 128 : 48,
          int NUM_WARPS = 4, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  check_scale(args.scale);
  // [anchor: map]
  // Views a tensor [batch*heads, len, HEAD_DIM] as panels of 64 columns, so that one box is a whole
  // tile.
  const auto map = [&](const fa::TensorRef& tensor, int rows, Swizzle swizzle) {
    const auto [batch, heads, len, dim] = tensor.shape;
    const int64_t rows_of_all = batch * heads * len;
    return make_tensor_map(
        static_cast<const bf16*>(tensor.data),
        {64, breaks.has(fa::FLAT_MAP) ? rows_of_all : len, HEAD_DIM / 64, batch * heads},
        {HEAD_DIM * 2, 128, len * HEAD_DIM * 2}, {64, rows, HEAD_DIM / 64, 1}, swizzle);
  };
  const Swizzle K_swizzle = breaks.has(fa::SWIZZLE_ONE_SIDE) ? Swizzle::none : Swizzle::bytes_128;
  // [/anchor: map]
  constexpr int SMEM_ROWS = BLOCK_Q + 3 * BLOCK_KV;              // Q, then K twice and V
  constexpr size_t SMEM = SMEM_ROWS * HEAD_DIM * sizeof(bf16) +  // and
                          1024 + 4 * 8;                          // to align it, and four mbarriers
  launch(attention<HEAD_DIM, BLOCK_Q, BLOCK_KV, NUM_WARPS, Breaks>, num_blocks(args, BLOCK_Q),
         NUM_WARPS * WARP_SIZE, SMEM, map(args.q, BLOCK_Q, Swizzle::bytes_128),
         map(args.k, BLOCK_KV, K_swizzle), map(args.v, BLOCK_KV, Swizzle::bytes_128),
         static_cast<bf16*>(args.o.data), static_cast<int>(args.q.shape[2]),
         static_cast<int>(args.k.shape[2]), args.scale * 1.44269504f, breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) { launch_attention<head_dim>(args, breaks); });
}

}  // namespace FA_BACKEND::ch12
