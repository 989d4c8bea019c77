#pragma once
// Tiles in shared memory, and the matrix products of the backward pass on them.
//
// All of a tile's scores are kept transposed, keys by queries, because then P.T and dS.T leave the
// registers as operand A of dV += P.T @ dO and dK += dS.T @ Q, as P did in the forward pass. (The
// idea is from FlashAttention-3.)

#include "params.hpp"

namespace FA_BACKEND::FA_CH10 {

// Returns where the 16-byte chunk at `offset` of a row-major tile is stored, as in chapter 09.
template <int ROW_BYTES>
FA_HOST_DEVICE constexpr uint32_t swizzle(uint32_t offset) {
  static_assert(ROW_BYTES % 128 == 0, "a row fills whole lines of 128 bytes: all banks");
  return offset ^ (offset / ROW_BYTES % 8 * 16);
}

// One head of a tensor in global memory: [rows, cols], rows `stride` bytes apart.
struct Rows {
  const char* data;
  int rows, cols;
  uint32_t stride;
};
FA_DEVICE Rows rows_of(const Tensor& tensor, int batch, int head, int rows, int cols) {
  return {tensor.data + batch * tensor.batch + head * tensor.head, rows, cols, tensor.row};
}

// Starts copying rows [tile * HEIGHT, (tile + 1) * HEIGHT) of one head, as in chapter 09, with
// zeros outside [rows, cols]. Called by thread `thread` of NUM_THREADS.
template <int HEIGHT, int HEAD_DIM, int NUM_THREADS>
FA_DEVICE void load_tile(uint32_t smem, const Rows& gmem, int tile, int thread, FA_SITE) {
  constexpr int CHUNK = 16 / ELEMENT;
  constexpr int STEP = NUM_THREADS * CHUNK;  // elements that all threads copy at a time
  constexpr int STEP_ROWS = STEP / HEAD_DIM;
  static_assert(HEIGHT % STEP_ROWS == 0, "every thread copies the same number of chunks");
  static_assert(STEP_ROWS % 8 == 0, "the swizzle repeats every 8 rows: one swizzle per thread");
  const int element = thread * CHUNK;  // start of this thread's first chunk
  const int row = tile * HEIGHT + element / HEAD_DIM, col = element % HEAD_DIM;
  const int rows_left = col < gmem.cols ? gmem.rows - row : 0;
  const uint32_t offset = row * gmem.stride + col * ELEMENT;  // a head takes less than 4 GB
  const char* src = gmem.data + offset;
  const uint32_t dst = smem + swizzle<HEAD_DIM * ELEMENT>(element * ELEMENT);
  for (int step = 0; step < HEIGHT / STEP_ROWS; ++step) {
    const int source_bytes = step * STEP_ROWS < rows_left ? 16 : 0;
    cp_async_16(dst + step * STEP * ELEMENT, src, source_bytes, line, file);
    src += STEP_ROWS * gmem.stride;
  }
}

// Returns the address that a lane passes to ldmatrix for a 16x16 tile at `smem`: rows 0-7, chunk 0
// | rows 8-15, chunk 0 | rows 0-7, chunk 1 | rows 8-15, chunk 1. `across` exchanges the second and
// the third.
template <int ROW_BYTES>
FA_DEVICE uint32_t lane_down(uint32_t smem) {
  const uint32_t lane = lane_index();
  return smem + swizzle<ROW_BYTES>(lane % 16 * ROW_BYTES + lane / 16 * 16);
}
template <int ROW_BYTES>
FA_DEVICE uint32_t lane_across(uint32_t smem) {
  const uint32_t lane = lane_index();
  return smem + swizzle<ROW_BYTES>((lane / 16 * 8 + lane % 8) * ROW_BYTES + lane / 8 % 2 * 16);
}

// Returns an address, or an offset in a tile, `bytes` further along the row, in whole chunks. Tiles
// are at multiples of 128 bytes, so both are correct. Which one is faster depends on ptxas, and at
// 255 registers it decides whether a kernel spills, see docs/measurements/h200/ch10_notes.md.
FA_DEVICE uint32_t along_row(uint32_t address, uint32_t bytes) {
  return (address ^ bytes % 128) + bytes / 128 * 128;
}

// C += A @ B.T   [16 MMAS_M, 8 MMAS_N], summed over HEAD_DIM
// The tiles' rows are contiguous along HEAD_DIM, as both operands need it. The next fragments are
// loaded while the tensor cores use these.
template <class T, int HEAD_DIM, int MMAS_M, int MMAS_N>
FA_DEVICE void multiply_rows(float (&C_rmem)[MMAS_M][MMAS_N][4],
                             uint32_t A_smem,    // [16 MMAS_M, HEAD_DIM]
                             uint32_t B_smem) {  // [8 MMAS_N, HEAD_DIM]
  constexpr uint32_t ROW_BYTES = HEAD_DIM * ELEMENT;
  constexpr int PAIRS = MMAS_N / 2, MMAS_D = HEAD_DIM / MMA_K;
  const uint32_t A_lane = lane_down<ROW_BYTES>(A_smem), B_lane = lane_across<ROW_BYTES>(B_smem);
  uint32_t A_rmem[2][MMAS_M][4], B_rmem[2][4];
  const auto load_A = [&](int mma_d) {
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
      ldmatrix_x4(A_rmem[mma_d % 2][mma_m],
                  along_row(A_lane, mma_d * MMA_K * ELEMENT) + mma_m * MMA_M * ROW_BYTES);
  };
  const auto load_B = [&](int n) {  // 16 rows of B, 16 columns
    ldmatrix_x4(B_rmem[n % 2],
                along_row(B_lane, n / PAIRS * MMA_K * ELEMENT) + n % PAIRS * 2 * MMA_N * ROW_BYTES);
  };
  load_A(0);
  load_B(0);
  FA_UNROLL
  for (int n = 0; n < MMAS_D * PAIRS; ++n) {
    const int mma_d = n / PAIRS, mma_n = n % PAIRS * 2;
    if (n + 1 < MMAS_D * PAIRS) load_B(n + 1);
    if (mma_n == 0 && mma_d + 1 < MMAS_D) load_A(mma_d + 1);
    const auto& b = B_rmem[n % 2];
    FA_UNROLL
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m) {
      mma_m16n8k16<T>(A_rmem[mma_d % 2][mma_m], {b[0], b[1]}, C_rmem[mma_m][mma_n]);
      mma_m16n8k16<T>(A_rmem[mma_d % 2][mma_m], {b[2], b[3]}, C_rmem[mma_m][mma_n + 1]);
    }
  }
}

// C += A @ B   [16 MMAS_M, 8 MMAS_N], summed over 16 MMAS_K rows of B
// A is in registers. B's rows are contiguous along the columns, so ldmatrix transposes them.
template <class T, int ROW_BYTES, int MMAS_M, int MMAS_N, int MMAS_K>
FA_DEVICE void multiply_weights(float (&C_rmem)[MMAS_M][MMAS_N][4],
                                const uint32_t (&A_rmem)[MMAS_K][MMAS_M][4],
                                uint32_t B_smem) {  // [16 MMAS_K, 8 MMAS_N]
  constexpr int PAIRS = MMAS_N / 2;
  const uint32_t B_lane = lane_down<ROW_BYTES>(B_smem);
  uint32_t B_rmem[2][4];
  const auto load_B = [&](int n) {
    ldmatrix_x4_trans(B_rmem[n % 2], along_row(B_lane, n % PAIRS * 2 * MMA_N * ELEMENT) +
                                         n / PAIRS * MMA_K * ROW_BYTES);
  };
  load_B(0);
  FA_UNROLL
  for (int n = 0; n < MMAS_K * PAIRS; ++n) {
    const int mma_k = n / PAIRS, mma_n = n % PAIRS * 2;
    if (n + 1 < MMAS_K * PAIRS) load_B(n + 1);
    const auto& b = B_rmem[n % 2];
    FA_UNROLL
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m) {
      mma_m16n8k16<T>(A_rmem[mma_k][mma_m], {b[0], b[1]}, C_rmem[mma_m][mma_n]);
      mma_m16n8k16<T>(A_rmem[mma_k][mma_m], {b[2], b[3]}, C_rmem[mma_m][mma_n + 1]);
    }
  }
}

constexpr uint32_t DS_ROW_BYTES = BLOCK_Q * ELEMENT;
constexpr uint32_t DS_TILE_BYTES = BLOCK_KV * DS_ROW_BYTES;

// C += dS @ K   [16 MMAS_M queries, 8 MMAS_N columns], summed over the block's keys
// dS is stored as dS.T [BLOCK_KV, BLOCK_Q], so ldmatrix transposes both.
template <class T, int HEAD_DIM, int MMAS_M, int MMAS_N>
FA_DEVICE void multiply_keys(float (&C_rmem)[MMAS_M][MMAS_N][4], uint32_t dS_smem, int query,
                             uint32_t K_smem, int col) {  // this warp's first of each
  constexpr uint32_t ROW_BYTES = HEAD_DIM * ELEMENT;
  constexpr int MMAS_KV = BLOCK_KV / MMA_K;
  const uint32_t dS_lane = along_row(lane_across<DS_ROW_BYTES>(0), query * ELEMENT);
  const uint32_t K_lane = along_row(lane_down<ROW_BYTES>(0), col * ELEMENT);
  uint32_t dS_rmem[2][MMAS_M][4], K_rmem[2][MMAS_N / 2][4];
  const auto load = [&](int mma_kv) {
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
      ldmatrix_x4_trans(
          dS_rmem[mma_kv % 2][mma_m],
          dS_smem + along_row(dS_lane, mma_m * MMA_M * ELEMENT) + mma_kv * MMA_K * DS_ROW_BYTES);
    for (int pair = 0; pair < MMAS_N / 2; ++pair)
      ldmatrix_x4_trans(
          K_rmem[mma_kv % 2][pair],
          K_smem + along_row(K_lane, pair * 2 * MMA_N * ELEMENT) + mma_kv * MMA_K * ROW_BYTES);
  };
  load(0);
  FA_UNROLL
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
    if (mma_kv + 1 < MMAS_KV) load(mma_kv + 1);
    FA_UNROLL
    for (int mma_n = 0; mma_n < MMAS_N; ++mma_n) {
      const auto& k = K_rmem[mma_kv % 2][mma_n / 2];
      const int at = mma_n % 2 * 2;
      FA_UNROLL
      for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
        mma_m16n8k16<T>(dS_rmem[mma_kv % 2][mma_m], {k[at], k[at + 1]}, C_rmem[mma_m][mma_n]);
    }
  }
}

}  // namespace FA_BACKEND::FA_CH10
