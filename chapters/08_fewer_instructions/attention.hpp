#pragma once
// Chapter 08: fewer instructions.
//
// The schedule is that of chapter 07. Each warp owns 32 query rows, so that every fragment of K and
// V feeds two mma. Q stays in shared memory, because O and S need the registers. The softmax has
// one FMA before each exponential, no shuffle in most tiles, and rescales O only when a maximum has
// grown a lot. P is computed for 16 keys at a time, between the mma that use it.
//
//   ./learn diff 08       ch08_fewer_instructions --shape 1,1,128,512,128 --profile
//
// 410 TFLOP/s at (2,16,8192,8192,128) on an H200, where PyTorch's FlashAttention-2 reached 350.

#include "common/kernels/epilogue.hpp"
#include "common/kernels/geometry.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/softmax.hpp"

namespace FA_BACKEND::ch08 {

// Returns where the 16-byte chunk at `offset` of a row-major tile is stored. A line of 128 bytes
// uses each bank once, so rows that share a line do not conflict. The XOR term grows by one per
// line. It only changes the bits that number a chunk in its row (in its line, where a row is longer
// than a line).
template <int ROW_BYTES>
FA_HOST_DEVICE constexpr uint32_t swizzle(uint32_t offset) {
  static_assert(ROW_BYTES >= 16 && (ROW_BYTES & (ROW_BYTES - 1)) == 0, "a power of two from 16 up");
  constexpr uint32_t CHUNKS = (ROW_BYTES < 128 ? ROW_BYTES : 128) / 16;
  constexpr uint32_t ROWS_PER_LINE = ROW_BYTES < 128 ? 128 / ROW_BYTES : 1;
  return offset ^ (offset / ROW_BYTES / ROWS_PER_LINE % CHUNKS * 16);
}

// Starts copying rows [tile * HEIGHT, (tile + 1) * HEIGHT) of a matrix [len, HEAD_DIM] from global
// to shared memory, 16 bytes per thread at a time, so that adjacent threads copy adjacent chunks.
// Rows `len` and above do not exist, so they are not read and become zeros.
template <int HEIGHT, int HEAD_DIM, int NUM_THREADS>
FA_DEVICE void load_tile(uint32_t smem, const bf16* gmem, int tile, int len, FA_SITE) {
  constexpr int CHUNK = 16 / sizeof(bf16);   // elements in 16 bytes
  constexpr int STEP = NUM_THREADS * CHUNK;  // elements that all threads copy at a time
  constexpr int STEP_ROWS = STEP / HEAD_DIM;
  static_assert(HEIGHT % STEP_ROWS == 0, "every thread copies the same number of chunks");
  static_assert(STEP_ROWS % 8 == 0, "the swizzle repeats every 8 rows: one swizzle per thread");

  const int element = thread_index() * CHUNK;  // start of this thread's first chunk
  const int rows_left = len - tile * HEIGHT - element / HEAD_DIM;
  const bf16* src = gmem + int64_t{tile} * HEIGHT * HEAD_DIM + element;
  const uint32_t dst = smem + swizzle<HEAD_DIM * sizeof(bf16)>(element * sizeof(bf16));
  for (int step = 0; step < HEIGHT / STEP_ROWS; ++step) {
    const int source_bytes = step * STEP_ROWS < rows_left ? 16 : 0;
    cp_async_16(dst + step * STEP * sizeof(bf16), src + step * STEP, source_bytes, line, file);
  }
}

// S += Q @ K.T   [WARP_Q, BLOCK_KV]
// Operand B needs, for each key, adjacent elements along HEAD_DIM in a register, as in K's rows.
// swizzle(lane + column) = swizzle(lane) ^ column, because their bits do not overlap.
template <int HEAD_DIM, int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                  uint32_t Q_smem,  // this warp's rows [WARP_Q, HEAD_DIM]
                                  uint32_t K_smem, Breaks breaks) {
  constexpr uint32_t ROW_BYTES = HEAD_DIM * sizeof(bf16);
  const uint32_t Q_lane =
      swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  // keys 0-7, d 0-7 | keys 0-7, d 8-15 | keys 8-15, d 0-7 | keys 8-15, d 8-15
  const uint32_t lane_row = lane_index() / 16 * 8 + lane_index() % 8;
  const uint32_t row_major = lane_row * ROW_BYTES + lane_index() / 8 % 2 * 16;
  const uint32_t K_lane =
      breaks.has(fa::SWIZZLE_ONE_SIDE) ? row_major : swizzle<ROW_BYTES>(row_major);
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d) {
    const uint32_t col_offset = mma_d * MMA_K * sizeof(bf16);
    uint32_t Q_rmem[MMAS_Q][4];
    for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
      ldmatrix_x4(Q_rmem[mma_q], Q_smem + mma_q * MMA_M * ROW_BYTES + (Q_lane ^ col_offset));
    // [anchor: two_mma_for_each_fragment]
    for (int mma_kv = 0; mma_kv < MMAS_KV; mma_kv += 2) {
      uint32_t K_rmem[4];
      ldmatrix_x4(K_rmem, K_smem + mma_kv * MMA_N * ROW_BYTES + (K_lane ^ col_offset));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16(Q_rmem[mma_q], {K_rmem[0], K_rmem[1]}, S_rmem[mma_q][mma_kv]);
        mma_m16n8k16(Q_rmem[mma_q], {K_rmem[2], K_rmem[3]}, S_rmem[mma_q][mma_kv + 1]);
      }
    }
    // [/anchor: two_mma_for_each_fragment]
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
      // [anchor: vote]
      // In the first tile m = -inf. Written so that the NaN of -inf - (-inf) counts as grown.
      grew |= !((row_max[mma_q][half] - m[mma_q][half]) * scale_log2 <= MAX_GROWTH);
      grew |= !is_foldable(m[mma_q][half], scale_log2);
    }
  if (!warp_any(grew)) return;
  // [/anchor: vote]

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
// [anchor: exponentiate]
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
// [/anchor: exponentiate]

// O += exp(S - m) @ V   [WARP_Q, HEAD_DIM]
// The sum runs over keys, so operand B needs elements that are adjacent along the keys, but V's
// rows are contiguous along HEAD_DIM, so ldmatrix transposes each 8x8 matrix. The exponentials of
// the next 16 keys do not wait for the mma of these, because the two units work in parallel.
template <int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4], float (&l)[MMAS_Q][2],
                                      const float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                      const float (&m)[MMAS_Q][2], float scale_log2,
                                      uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  // keys 0-7, d 0-7 | keys 8-15, d 0-7 | keys 0-7, d 8-15 | keys 8-15, d 8-15
  const uint32_t V_lane =
      swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  // [anchor: beside_the_mma]
  for (int mma_kv = 0; mma_kv < MMAS_KV / 2; ++mma_kv) {
    uint32_t P_rmem[MMAS_Q][4];
    exponentiate(P_rmem, l, S_rmem, mma_kv, m, scale_log2);
    for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
      uint32_t V_rmem[4];
      const uint32_t col_offset = mma_d * MMA_N * sizeof(bf16);
      ldmatrix_x4_trans(V_rmem, V_smem + mma_kv * MMA_K * ROW_BYTES + (V_lane ^ col_offset));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16(P_rmem[mma_q], {V_rmem[0], V_rmem[1]}, O_rmem[mma_q][mma_d]);
        mma_m16n8k16(P_rmem[mma_q], {V_rmem[2], V_rmem[3]}, O_rmem[mma_q][mma_d + 1]);
      }
    }
  }
  // [/anchor: beside_the_mma]
}

// The second number requests at least one block per SM, so that the compiler may use all 255
// registers of a thread. Otherwise it may save registers and load fragments too late.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_KV, int NUM_WARPS, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(32 * NUM_WARPS, 1)
void attention(const bf16* Q,  // [batch*heads, len_q, HEAD_DIM]
               const bf16* K,  // [batch*heads, len_kv, HEAD_DIM]
               const bf16* V,  // [batch*heads, len_kv, HEAD_DIM]
               bf16* O,        // [batch*heads, len_q, HEAD_DIM]
               int len_q, int len_kv, float scale, Breaks breaks) {
  constexpr int NUM_THREADS = NUM_WARPS * WARP_SIZE;
  constexpr int WARP_Q = BLOCK_Q / NUM_WARPS;
  constexpr uint32_t ROW_BYTES = HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * ROW_BYTES;
  static_assert(BLOCK_Q % (NUM_WARPS * MMA_M) == 0, "every warp owns whole 16-row mma tiles");
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % MMA_K == 0, "tiles are whole mma tiles");

  // One block per BLOCK_Q rows of each head. Blocks of one head are adjacent, so that the K and V
  // which all of them read come from the L2 cache.
  const int num_q_tiles = ceil_div(len_q, BLOCK_Q);
  const int num_kv_tiles = ceil_div(len_kv, BLOCK_KV);
  const int64_t batch_head = block_index() / num_q_tiles;
  const int q_tile = block_index() % num_q_tiles;
  Q += batch_head * len_q * HEAD_DIM;
  K += batch_head * len_kv * HEAD_DIM;
  V += batch_head * len_kv * HEAD_DIM;
  O += batch_head * len_q * HEAD_DIM;

  const float scale_log2 = scale * 1.44269504f;  // e^x = 2^(x log2 e)

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + BLOCK_Q * ROW_BYTES;
  const uint32_t V_smem = K_smem + 2 * KV_TILE_BYTES;
  const auto buffer = [](uint32_t smem, int kv_tile) { return smem + kv_tile % 2 * KV_TILE_BYTES; };

  float O_rmem[WARP_Q / MMA_M][HEAD_DIM / MMA_N][4] = {};
  float m[WARP_Q / MMA_M][2];       // row maximum, up to 8 too small in log2
  float l[WARP_Q / MMA_M][2] = {};  // running row sum of this lane's columns
  for (auto& row : m) row[0] = row[1] = NEG_INF;

  // wait_group counts groups. Each call commits one, even if there is no tile left to copy, so that
  // the count in the loop is right up to the last tile.
  const auto load_K = [&, breaks](int kv_tile) {
    const bool exists = kv_tile < num_kv_tiles;
    if (exists)
      load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(buffer(K_smem, kv_tile), K, kv_tile, len_kv);
    if (exists || !breaks.has(fa::CONDITIONAL_COMMIT)) cp_async_commit();
  };
  const auto load_V = [&](int kv_tile) {
    load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(V_smem, V, kv_tile, len_kv);
    cp_async_commit();
  };

  // [anchor: main_loop]
  load_tile<BLOCK_Q, HEAD_DIM, NUM_THREADS>(Q_smem, Q, q_tile, len_q);  // in K's first group
  load_K(0);
  for (int kv_tile = 0; kv_tile < num_kv_tiles; ++kv_tile) {
    // All warps have read the last tile's V, so this tile's may overwrite it.
    if (!breaks.has(fa::MISSING_BARRIER)) block_sync();
    load_V(kv_tile);
    if (!breaks.has(fa::MISSING_WAIT)) cp_async_wait<1>();  // V stays in flight
    block_sync();  // every thread's part of this K has landed

    float S_rmem[WARP_Q / MMA_M][BLOCK_KV / MMA_N][4] = {};
    multiply_query_key<HEAD_DIM>(S_rmem, Q_smem + warp_index() * WARP_Q * ROW_BYTES,
                                 buffer(K_smem, kv_tile), breaks);  // S = Q @ K.T
    load_K(kv_tile + 1);
    const int keys_left = len_kv - kv_tile * BLOCK_KV;
    if (keys_left < BLOCK_KV && !breaks.has(fa::UNMASKED_TAIL)) mask_tail(S_rmem, keys_left);

    raise_row_max(m, l, O_rmem, S_rmem, scale_log2, breaks);  // m' = max(m, rowmax S), if needed

    breaks.has(fa::WAIT_TOO_FEW) ? cp_async_wait<2>() : cp_async_wait<1>();  // the next K stays
    // Every thread's part of this V has landed, and all warps have read this tile's K, whose buffer
    // the next load_K fills.
    if (!breaks.has(fa::DIVERGENT_BARRIER) || warp_index() == 0) block_sync();

    multiply_weights_value(O_rmem, l, S_rmem, m, scale_log2, V_smem);  // O += exp(S - m) @ V
  }
  // [/anchor: main_loop]

  for (auto& row : l)
    for (float& sum : row) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
  const int first_query = q_tile * BLOCK_Q + warp_index() * WARP_Q;
  store_output(O + int64_t{first_query} * HEAD_DIM, O_rmem, l, len_q - first_query);
}

template <int HEAD_DIM, int BLOCK_Q = 128, int BLOCK_KV = HEAD_DIM == 64 ? 128 : 64,
          int NUM_WARPS = 4, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  check_scale(args.scale);
  constexpr int SMEM_ROWS = BLOCK_Q + 3 * BLOCK_KV;  // Q, then K twice and V
  launch_forward<BLOCK_Q, NUM_WARPS>(attention<HEAD_DIM, BLOCK_Q, BLOCK_KV, NUM_WARPS, Breaks>,
                                     args, SMEM_ROWS * HEAD_DIM * sizeof(bf16), breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) { launch_attention<head_dim>(args, breaks); });
}

}  // namespace FA_BACKEND::ch08
