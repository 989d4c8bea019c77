#pragma once
// Chapter 04: the same kernel without bank conflicts.
//
// The eight rows that ldmatrix reads at a time are 256 bytes apart, all in the same four of 32
// banks. Now the order of the 16-byte chunks in each row depends on the row's number, by XOR,
// so that eight rows use all banks. Nothing else changes.
// On an H200, shape 1,8,4096,8192,128: 249.9 TFLOP/s (docs/measurements/h200).
//
//   ./learn diff 04       ch04_swizzling --shape 1,1,128,512,128 --profile

#include "common/kernels/epilogue.hpp"
#include "common/kernels/geometry.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/softmax.hpp"

namespace FA_BACKEND::ch04 {

// [anchor: swizzle]
// Returns where the 16-byte chunk at `offset` of a row-major tile is stored. A line of 128 bytes
// uses each bank once, so rows that share a line do not conflict. The XOR term grows by one per
// line. It only changes the bits that number a chunk in its row (in its line, if a row is longer).
template <int ROW_BYTES>
FA_HOST_DEVICE constexpr uint32_t swizzle(uint32_t offset) {
  static_assert(ROW_BYTES >= 16 && (ROW_BYTES & (ROW_BYTES - 1)) == 0, "a power of two from 16 up");
  constexpr uint32_t CHUNKS = (ROW_BYTES < 128 ? ROW_BYTES : 128) / 16;
  constexpr uint32_t ROWS_PER_LINE = ROW_BYTES < 128 ? 128 / ROW_BYTES : 1;
  return offset ^ (offset / ROW_BYTES / ROWS_PER_LINE % CHUNKS * 16);
}
// [/anchor: swizzle]

// [anchor: load_tile]
// Starts copying rows [tile * HEIGHT, (tile + 1) * HEIGHT) of a matrix [len, HEAD_DIM] from global
// to shared memory, 16 bytes per thread at a time, so that adjacent threads copy adjacent chunks.
// Rows `len` and above do not exist, so they are not read and become zeros.
template <int HEIGHT, int HEAD_DIM, int NUM_THREADS>
FA_DEVICE void load_tile(uint32_t smem, const bf16* gmem, int tile, int len, FA_SITE) {
  constexpr int CHUNK = 16 / sizeof(bf16);   // elements in 16 bytes
  constexpr int STEP = NUM_THREADS * CHUNK;  // elements that all threads copy at a time
  constexpr int STEP_ROWS = STEP / HEAD_DIM;
  static_assert(HEIGHT % STEP_ROWS == 0, "every thread copies the same number of chunks");

  const int element = thread_index() * CHUNK;  // start of this thread's first chunk
  const int rows_left = len - tile * HEIGHT - element / HEAD_DIM;
  const bf16* src = gmem + int64_t{tile} * HEIGHT * HEAD_DIM + element;
  for (int step = 0; step < HEIGHT / STEP_ROWS; ++step) {
    const uint32_t offset = (element + step * STEP) * sizeof(bf16);
    const uint32_t dst = smem + swizzle<HEAD_DIM * sizeof(bf16)>(offset);
    const int source_bytes = step * STEP_ROWS < rows_left ? 16 : 0;
    cp_async_16(dst, src + step * STEP, source_bytes, line, file);
  }
}
// [/anchor: load_tile]

// Q_smem -> Q_rmem, this warp's rows, as operand A. One x4 loads a whole 16x16 tile. Lanes 0-15
// pass the addresses of its rows' left halves, and lanes 16-31 those of their right halves.
template <int MMAS_Q, int MMAS_D>
FA_DEVICE void load_fragments_Q(uint32_t (&Q_rmem)[MMAS_Q][MMAS_D][4], uint32_t Q_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  const uint32_t lane_offset =
      swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  const uint32_t first_row = warp_index() * MMAS_Q * MMA_M;
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
      const uint32_t row_offset = (first_row + mma_q * MMA_M) * ROW_BYTES;
      const uint32_t col_offset = mma_d * MMA_K * sizeof(bf16);
      ldmatrix_x4(Q_rmem[mma_q][mma_d], Q_smem + row_offset + (lane_offset ^ col_offset));
    }
}

// [anchor: multiply_query_key]
// S += Q @ K.T   [WARP_Q, BLOCK_KV]
// Operand B needs, for each key, adjacent elements along HEAD_DIM in a register, as in K's rows.
// swizzle(lane + column) = swizzle(lane) ^ column, because their bits do not overlap.
template <int MMAS_Q, int MMAS_KV, int MMAS_D, class Breaks>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                  const uint32_t (&Q_rmem)[MMAS_Q][MMAS_D][4], uint32_t K_smem,
                                  Breaks breaks) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  const uint32_t row_major = lane_index() % 8 * ROW_BYTES + lane_index() / 8 % 2 * 16;
  const uint32_t lane_offset =
      breaks.has(fa::SWIZZLE_ONE_SIDE) ? row_major : swizzle<ROW_BYTES>(row_major);
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
      uint32_t K_rmem[2];
      const uint32_t row_offset = mma_kv * MMA_N * ROW_BYTES;
      const uint32_t col_offset = mma_d * MMA_K * sizeof(bf16);
      ldmatrix_x2(K_rmem, K_smem + row_offset + (lane_offset ^ col_offset));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
        mma_m16n8k16(Q_rmem[mma_q][mma_d], K_rmem, S_rmem[mma_q][mma_kv]);
    }
}
// [/anchor: multiply_query_key]

// O += P @ V   [WARP_Q, HEAD_DIM]
// The sum runs over keys, so operand B needs elements that are adjacent along the keys, but V's
// rows are contiguous along HEAD_DIM, so ldmatrix transposes each 8x8 matrix.
template <int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4],
                                      const uint32_t (&P_rmem)[MMAS_Q][MMAS_KV][4],
                                      uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  const uint32_t lane_offset = swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES);
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
      uint32_t V_rmem[2];
      const uint32_t row_offset = mma_kv * MMA_K * ROW_BYTES;
      const uint32_t col_offset = mma_d * MMA_N * sizeof(bf16);
      ldmatrix_x2_trans(V_rmem, V_smem + row_offset + (lane_offset ^ col_offset));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
        mma_m16n8k16(P_rmem[mma_q][mma_kv], V_rmem, O_rmem[mma_q][mma_d]);
    }
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
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM * sizeof(bf16);
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

  // Q is in registers before the first K arrives, so it uses the memory of K and V.
  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem;
  const uint32_t V_smem = K_smem + KV_TILE_BYTES;

  uint32_t Q_rmem[WARP_Q / MMA_M][HEAD_DIM / MMA_K][4];
  uint32_t P_rmem[WARP_Q / MMA_M][BLOCK_KV / MMA_K][4];
  float O_rmem[WARP_Q / MMA_M][HEAD_DIM / MMA_N][4] = {};
  float m[WARP_Q / MMA_M][2];        // running row maximum
  float l[WARP_Q / MMA_M][2] = {};   // running row sum
  float rescale[WARP_Q / MMA_M][2];  // exp(m_old - m)
  for (auto& row : m) row[0] = row[1] = NEG_INF;

  const auto load_K = [&](int kv_tile) {
    load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(K_smem, K, kv_tile, len_kv);
    cp_async_commit();
  };
  const auto load_V = [&](int kv_tile) {
    load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(V_smem, V, kv_tile, len_kv);
    cp_async_commit();
  };

  load_tile<BLOCK_Q, HEAD_DIM, NUM_THREADS>(Q_smem, Q, q_tile, len_q);
  cp_async_commit();
  cp_async_wait<0>();
  block_sync();  // every thread's part of Q_smem has landed
  load_fragments_Q(Q_rmem, Q_smem);
  block_sync();  // all warps have read Q_smem, so K and V may overwrite it

  for (int kv_tile = 0; kv_tile < num_kv_tiles; ++kv_tile) {
    load_K(kv_tile);
    if (!breaks.has(fa::MISSING_WAIT)) cp_async_wait<0>();
    // Every thread's part of K_smem has landed, and all warps have read the last tile's V_smem.
    if (!breaks.has(fa::MISSING_BARRIER)) block_sync();

    float S_rmem[WARP_Q / MMA_M][BLOCK_KV / MMA_N][4] = {};
    multiply_query_key(S_rmem, Q_rmem, K_smem, breaks);  // S = Q @ K.T
    scale_scores(S_rmem, scale);                         // S *= scale
    const int keys_left = len_kv - kv_tile * BLOCK_KV;
    if (keys_left < BLOCK_KV && !breaks.has(fa::UNMASKED_TAIL)) mask_tail(S_rmem, keys_left);

    update_row_max(m, rescale, S_rmem, breaks);                    // m' = max(m, rowmax S)
    scale_rows(O_rmem, rescale);                                   // O *= exp(m - m')
    exponentiate_and_pack(P_rmem, S_rmem, m, l, rescale, breaks);  // P = exp(S - m')

    load_V(kv_tile);
    cp_async_wait<0>();
    // Every thread's part of V_smem has landed, and all warps have read this tile's K_smem.
    if (!breaks.has(fa::DIVERGENT_BARRIER) || warp_index() == 0) block_sync();

    multiply_weights_value(O_rmem, P_rmem, V_smem);  // O += P @ V
  }

  const int first_query = q_tile * BLOCK_Q + warp_index() * WARP_Q;
  store_output(O + int64_t{first_query} * HEAD_DIM, O_rmem, l, len_q - first_query);
}

template <int HEAD_DIM, int BLOCK_Q = 64, int BLOCK_KV = 64, int NUM_WARPS = 4, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  constexpr int SMEM_ROWS = std::max(BLOCK_Q, 2 * BLOCK_KV);  // Q, then K and V
  launch_forward<BLOCK_Q, NUM_WARPS>(attention<HEAD_DIM, BLOCK_Q, BLOCK_KV, NUM_WARPS, Breaks>,
                                     args, SMEM_ROWS * HEAD_DIM * sizeof(bf16), breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) { launch_attention<head_dim>(args, breaks); });
}

}  // namespace FA_BACKEND::ch04
