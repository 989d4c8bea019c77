#pragma once
// Chapter 17: low precision, Q K^T in 8 bits.
//
// Chapter 09's kernel with two changes. First, Q and K have been rounded to 8-bit integers before,
// which the tensor cores multiply exactly and at twice the rate. Second, the elements of Q and of K
// that a thread holds share one scale each. The product of both scales becomes part of the
// exponential's factor, which exists anyway. P V stays in bf16.
//
//   ./learn diff 17       ch17_low_precision --shape 1,1,128,512,128 --profile
//
// For sm_80 and later.

#include "chapters/17_low_precision/quantize.hpp"

namespace FA_BACKEND::ch17 {

constexpr int MMA_K8 = 32;  // mma.m16n8k32: C [16, 8] += A [16, 32] @ B [32, 8]

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

// Starts copying rows [tile * HEIGHT, (tile + 1) * HEIGHT) of a matrix [len, ROW_BYTES] from global
// to shared memory, 16 bytes per thread at a time, so that adjacent threads copy adjacent chunks.
// Rows `len` and above do not exist, so they are not read and become zeros.
template <int HEIGHT, int ROW_BYTES, int NUM_THREADS>
FA_DEVICE void load_tile(uint32_t smem, const void* gmem, int tile, int len, FA_SITE) {
  constexpr int STEP = NUM_THREADS * 16;  // bytes that all threads copy at the same time
  constexpr int STEP_ROWS = STEP / ROW_BYTES;
  static_assert(HEIGHT % STEP_ROWS == 0, "every thread copies the same number of chunks");
  static_assert(STEP % 1024 == 0, "the swizzle repeats every 8 lines: one swizzle per thread");

  const int byte = thread_index() * 16;  // offset of this thread's first chunk
  const int rows_left = len - tile * HEIGHT - byte / ROW_BYTES;
  const uint32_t offset = static_cast<uint32_t>(tile) * (HEIGHT * ROW_BYTES) + byte;
  const char* src = static_cast<const char*>(gmem) + offset;
  const uint32_t dst = smem + swizzle<ROW_BYTES>(byte);
  for (int step = 0; step < HEIGHT / STEP_ROWS; ++step) {
    const int source_bytes = step * STEP_ROWS < rows_left ? 16 : 0;
    cp_async_16(dst + step * STEP, src, source_bytes, line, file);
    src += STEP;
  }
}

// S = Q @ K.T, of integers   [WARP_Q, BLOCK_KV]
// A register holds four adjacent 8-bit elements instead of two 16-bit elements. Byte by byte, the
// fragments of m16n8k32 are those of m16n8k16, so ldmatrix loads both.
// [anchor: multiply_query_key]
template <int HEAD_DIM, int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                  uint32_t Q_smem,  // this warp's rows [WARP_Q, HEAD_DIM]
                                  uint32_t K_smem, Breaks breaks) {
  // The last bit of 1.5 * 2^23 counts as 1. If an integer of up to 2^22 either way is added to its
  // bits, the float is 1.5 * 2^23 plus that integer, so a subtraction converts it. (The conversion
  // instruction would run on the unit of the exponentials.)
  constexpr int ZERO_BITS = 0x4b400000;
  constexpr float ZERO = 12582912.0f;
  static_assert(127 * 127 * HEAD_DIM < 1 << 22, "a score fits the mantissa");
  int sums[MMAS_Q][MMAS_KV][4];
  for (auto& row : sums)
    for (auto& mma : row)
      for (int& sum : mma) sum = ZERO_BITS;

  constexpr uint32_t ROW_BYTES = HEAD_DIM;
  const uint32_t Q_lane =
      swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  // keys 0-7, d 0-15 | keys 0-7, d 16-31 | keys 8-15, d 0-15 | keys 8-15, d 16-31
  const uint32_t lane_row = lane_index() / 16 * 8 + lane_index() % 8;
  const uint32_t row_major = lane_row * ROW_BYTES + lane_index() / 8 % 2 * 16;
  const uint32_t K_lane =
      breaks.has(fa::SWIZZLE_ONE_SIDE) ? row_major : swizzle<ROW_BYTES>(row_major);
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K8; ++mma_d) {
    const uint32_t col_offset = mma_d * MMA_K8;
    uint32_t Q_rmem[MMAS_Q][4];
    for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
      ldmatrix_x4(Q_rmem[mma_q], Q_smem + mma_q * MMA_M * ROW_BYTES + (Q_lane ^ col_offset));
    for (int mma_kv = 0; mma_kv < MMAS_KV; mma_kv += 2) {
      uint32_t K_rmem[4];
      ldmatrix_x4(K_rmem, K_smem + mma_kv * MMA_N * ROW_BYTES + (K_lane ^ col_offset));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k32_s8(Q_rmem[mma_q], {K_rmem[0], K_rmem[1]}, sums[mma_q][mma_kv]);
        mma_m16n8k32_s8(Q_rmem[mma_q], {K_rmem[2], K_rmem[3]}, sums[mma_q][mma_kv + 1]);
      }
    }
  }
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      for (int i = 0; i < 4; ++i)
        S_rmem[mma_q][mma_kv][i] = float_from_bits(sums[mma_q][mma_kv][i]) - ZERO;
}
// [/anchor: multiply_query_key]

// m' = max(m, rowmax S),   O *= 2^(m - m'),   l *= 2^(m - m')
// As in chapter 08, m stays until a weight would exceed 2^8. But the scales of S differ between
// tiles and between lanes, so m is stored as an exponent of 2.
template <int MMAS_Q, int MMAS_KV, int MMAS_D, class Breaks>
FA_DEVICE void raise_row_max(float (&m)[MMAS_Q][2], float (&l)[MMAS_Q][2],
                             float (&O_rmem)[MMAS_Q][MMAS_D][4],
                             const float (&S_rmem)[MMAS_Q][MMAS_KV][4], float scale,
                             Breaks breaks) {
  constexpr float MAX_GROWTH = 8.0f;  // weights reach 256, far from any overflow
  float row_max[MMAS_Q][2];
  bool grew = breaks.has(fa::NO_RESCALE);
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {  // row lane/4, then row lane/4 + 8
      float largest = NEG_INF;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
        const float* c = &S_rmem[mma_q][mma_kv][half * 2];
        largest = max(largest, max(c[0], c[1]));
      }
      row_max[mma_q][half] = largest * scale;
      // In the first tile m = -inf. Written so that the NaN of -inf - (-inf) counts as grown.
      grew |= !(row_max[mma_q][half] - m[mma_q][half] <= MAX_GROWTH);
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
      rescale[mma_q][half] = breaks.has(fa::NO_RESCALE) ? 1.0f : exp2(m_old - subtrahend(m_new));
      l[mma_q][half] *= rescale[mma_q][half];
    }
  scale_rows(O_rmem, rescale);
}

// P = 2^(scale S - m) for 16 keys, as operand A,   l += this lane's part of rowsum P
// It takes one FMA and one exponential as before, so the scales of 8 bits add no instruction here.
// [anchor: exponentiate]
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void exponentiate(uint32_t (&P_rmem)[MMAS_Q][4], float (&l)[MMAS_Q][2],
                            const float (&S_rmem)[MMAS_Q][MMAS_KV][4], int mma_kv,
                            const float (&m)[MMAS_Q][2], float scale) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int i = 0; i < 4; ++i) {
      const int half = i % 2;
      const float* s = &S_rmem[mma_q][mma_kv * 2 + i / 2][half * 2];
      const float m_row = subtrahend(m[mma_q][half]);
      const float p0 = exp2(fma(s[0], scale, -m_row));
      const float p1 = exp2(fma(s[1], scale, -m_row));
      l[mma_q][half] += p0 + p1;
      P_rmem[mma_q][i] = pack_bf16x2(p0, p1);
    }
}
// [/anchor: exponentiate]

// O += 2^(S - m) @ V   [WARP_Q, HEAD_DIM]
// The sum runs over keys, so operand B needs elements that are adjacent along the keys, but V's
// rows are contiguous along HEAD_DIM, so ldmatrix transposes each 8x8 matrix. The exponentials of
// the next 16 keys do not wait for the mma of these, because the two units work in parallel.
template <int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4], float (&l)[MMAS_Q][2],
                                      const float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                      const float (&m)[MMAS_Q][2], float scale, uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  // keys 0-7, d 0-7 | keys 8-15, d 0-7 | keys 0-7, d 8-15 | keys 8-15, d 8-15
  const uint32_t V_lane =
      swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  for (int mma_kv = 0; mma_kv < MMAS_KV / 2; ++mma_kv) {
    uint32_t P_rmem[MMAS_Q][4];
    exponentiate(P_rmem, l, S_rmem, mma_kv, m, scale);
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
}

// O = O / l, rounded to bf16, and LSE = ln(sum of e^s) = m ln 2 + ln(l) + the effect of K's mean. A
// fully masked row has m = -inf and l = 0, so its O is 0 and its LSE is -inf.
template <int MMAS_Q, int MMAS_D>
FA_DEVICE void store_output(const Params& params, int64_t first_row, int rows,
                            const float (&O_rmem)[MMAS_Q][MMAS_D][4], const float (&m)[MMAS_Q][2],
                            const float (&l)[MMAS_Q][2]) {
  constexpr int HEAD_DIM = MMAS_D * MMA_N;
  FA_UNROLL
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const int row = mma_q * MMA_M + half * 8 + lane_index() / 4;
      if (row >= rows) continue;
      const bool saw_nothing = m[mma_q][half] == NEG_INF && l[mma_q][half] == 0.0f;
      const float inverse = saw_nothing ? 0.0f : 1.0f / l[mma_q][half];
      for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
        const int col = mma_d * MMA_N + lane_index() % 4 * 2;
        const float* c = &O_rmem[mma_q][mma_d][half * 2];
        store_global(reinterpret_cast<uint32_t*>(params.O + (first_row + row) * HEAD_DIM + col),
                     pack_bf16x2(c[0] * inverse, c[1] * inverse));
      }
      if (params.LSE != nullptr && lane_index() % 4 == 0) {
        float lse = m[mma_q][half] * 0.69314718f + log(l[mma_q][half]);
        if (params.LSE_offset != nullptr) lse += load_global(params.LSE_offset + first_row + row);
        store_global(params.LSE + first_row + row, saw_nothing ? NEG_INF : lse);
      }
    }
}

// The second number requests at least one block per SM, so that the compiler may use all 255
// registers of a thread. Otherwise it may save registers and load fragments too late.
template <int HEAD_DIM, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(32 * (BLOCK_Q / WARP_Q), 1)
void attention(const Params params, Breaks breaks) {
  constexpr int BLOCK_KV = block_kv(HEAD_DIM);
  constexpr int NUM_WARPS = BLOCK_Q / WARP_Q, NUM_THREADS = NUM_WARPS * WARP_SIZE;
  constexpr int MMAS_Q = WARP_Q / MMA_M, MMAS_KV = BLOCK_KV / MMA_N;
  constexpr uint32_t K_TILE_BYTES = BLOCK_KV * HEAD_DIM;
  constexpr Groups K_GROUPS = k_groups(HEAD_DIM);
  using Scores = float[MMAS_Q][MMAS_KV][4];  // g++ 12 fails on the array type in the lambda below

  // One block per BLOCK_Q rows of each head. Blocks at the end of the sequence, which see the most
  // keys, start first, so that the last ones to run are short.
  const auto [head, y, unused] = block_index_3d();
  const int q_tile = grid_size().y - 1 - y;
  const int kv_head = head / params.group;
  const Mask& mask = params.mask;
  const int len_q = params.Q.rows, len_kv = params.K.rows;
  const int first_row = q_tile * BLOCK_Q;  // first query of this block
  // Equal in all lanes. The shuffle tells the compiler, so that it keeps the value once per warp.
  const int warp_row = first_row + shfl(warp_index(), 0) * WARP_Q;
  const int8_t* const Q = params.Q.numbers + int64_t{head} * len_q * HEAD_DIM;
  const int8_t* const K = params.K.numbers + int64_t{kv_head} * len_kv * HEAD_DIM;
  const bf16* const V = params.V + int64_t{kv_head} * len_kv * HEAD_DIM;
  const int end_row = first_row + BLOCK_Q < len_q ? first_row + BLOCK_Q : len_q;
  const Tiles<BLOCK_KV> tiles(mask, first_row, end_row - 1);
  tile_row(q_tile, ceil_div(len_kv, BLOCK_KV));

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + BLOCK_Q * HEAD_DIM;
  const uint32_t V_smem = K_smem + 2 * K_TILE_BYTES;
  const auto buffer = [](uint32_t smem, int n) { return smem + n % 2 * K_TILE_BYTES; };

  // [anchor: lane_scales]
  // All queries of this lane share one scale, and so do all its keys of each tile. `lane_scale` is
  // Q's scale times that of the n-th tile of K times the factor of the exponential.
  const float* const K_scales =
      params.K.scales + kv_head * num_scales(K_GROUPS, len_kv) + lane_index() % 4;
  float Q_scale = 0.0f;  // the scale of rows past the end
  if (warp_row < len_q)
    Q_scale = load_global(params.Q.scales + head * num_scales(Q_GROUPS, len_q) +
                          warp_row / WARP_Q * Q_GROUPS.of_a_tile + lane_index() / 4) *
              params.scale_log2;
  const auto lane_scale_of = [&, breaks](int n) {
    const int tile = tiles.visit(breaks.has(fa::LATE_SCALE) && n > 0 ? n - 1 : n);
    const float scale = load_global(K_scales + tile * K_GROUPS.of_a_tile) * Q_scale;
    return scale < 0x1p-126f ? 0x1p-126f : scale;  // -inf times 0 would be NaN
  };
  // [/anchor: lane_scales]

  float O_rmem[MMAS_Q][HEAD_DIM / MMA_N][4] = {};
  float m[MMAS_Q][2];       // row maximum, up to 8 too small, as an exponent of 2
  float l[MMAS_Q][2] = {};  // running row sum of this lane's columns
  for (auto& row : m) row[0] = row[1] = NEG_INF;

  // wait_group counts groups. Therefore each call commits one, even if there is no tile left to
  // copy, so that the count in the loop is right up to the last tile.
  const auto load_K = [&, breaks](int n) {  // the n-th tile to visit
    const bool exists = n < tiles.count();
    if (exists)
      load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(buffer(K_smem, n), K, tiles.visit(n), len_kv);
    if (exists || !breaks.has(fa::CONDITIONAL_COMMIT)) cp_async_commit();
  };
  const auto load_V = [&](int n) {
    load_tile<BLOCK_KV, HEAD_DIM * sizeof(bf16), NUM_THREADS>(V_smem, V, tiles.visit(n), len_kv);
    cp_async_commit();
  };

  const auto step = [&](int n, auto masked) {  // the n-th tile of keys
    // All warps have read the last tile's V, so this tile's may overwrite it.
    if (!breaks.has(fa::MISSING_BARRIER)) block_sync();
    load_V(n);
    const float lane_scale = lane_scale_of(n);
    if (!breaks.has(fa::MISSING_WAIT)) cp_async_wait<1>();  // V stays in flight
    block_sync();  // every thread's part of this K has landed

    Scores S_rmem;
    multiply_query_key<HEAD_DIM>(S_rmem, Q_smem + (warp_row - first_row) * HEAD_DIM,
                                 buffer(K_smem, n), breaks);  // S = Q @ K.T
    load_K(n + 1);
    tile_visit(tiles.visit(n), masked.value);
    if (masked.value && !breaks.has(fa::UNMASKED_TAIL))
      mask_scores(S_rmem, mask, warp_row, tiles.visit(n) * BLOCK_KV);

    raise_row_max(m, l, O_rmem, S_rmem, lane_scale, breaks);  // m' = max(m, rowmax S), if necessary

    breaks.has(fa::WAIT_TOO_FEW) ? cp_async_wait<2>() : cp_async_wait<1>();  // the next K stays in
                                                                             // flight
    // Every thread's part of this V has landed, and all warps have read this tile's K, whose buffer
    // the next load_K fills.
    if (!breaks.has(fa::DIVERGENT_BARRIER) || warp_index() == 0) block_sync();

    multiply_weights_value(O_rmem, l, S_rmem, m, lane_scale, V_smem);  // O += 2^(S - m) @ V
  };

  load_tile<BLOCK_Q, HEAD_DIM, NUM_THREADS>(Q_smem, Q, q_tile, len_q);  // in K's first group
  load_K(0);
  int n = 0;
  for (; n < tiles.clear_count(); ++n) step(n, std::false_type{});
  for (; n < tiles.count(); ++n) step(n, std::true_type{});

  for (auto& row : l)
    for (float& sum : row) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
  store_output(params, int64_t{head} * len_q + warp_row, len_q - warp_row, O_rmem, m, l);
}

template <int HEAD_DIM, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  check_scale_and_strides(args.scale, {&args.q, &args.k, &args.v, &args.o});
  const auto [batch, heads, len_q, dim] = args.q.shape;
  const int64_t kv_heads = args.k.shape[1], len_kv = args.k.shape[2];
  const Workspace w = workspace_of(args.workspace, {batch, heads, len_q, len_kv, dim}, kv_heads);
  const Quantized Q{w.Q, w.Q_scales, static_cast<int>(len_q)};
  const Quantized K{w.K, w.K_scales, static_cast<int>(len_kv)};
  const auto data = [](const fa::TensorRef& tensor) { return static_cast<bf16*>(tensor.data); };

  const bool smooth = !breaks.has(fa::NO_SMOOTHING);
  const bool offset = smooth && args.lse.data != nullptr && !breaks.has(fa::LSE_UNCORRECTED);
  QuantizeParams params{.from = data(args.k),
                        .to = K,
                        .largest = w.largest,
                        .K_mean = smooth ? w.K_mean : nullptr,
                        .group = static_cast<int>(heads / kv_heads),
                        .LSE_offset = nullptr,
                        .scale = args.scale,
                        .scales = breaks.has(fa::ONE_SCALE) ? PER_HEAD : args.options[0]};
  if (smooth) launch_mean<HEAD_DIM>(params.from, w, K.rows, batch * kv_heads);
  launch_quantize<HEAD_DIM, Operand::K>(params, batch * kv_heads);
  params.from = data(args.q);
  params.to = Q;
  params.LSE_offset = offset ? w.LSE_offset : nullptr;
  launch_quantize<HEAD_DIM, Operand::Q>(params, batch * heads);

  constexpr int BLOCK_KV = block_kv(HEAD_DIM);
  constexpr int SMEM = BLOCK_Q * HEAD_DIM + 2 * BLOCK_KV * HEAD_DIM +  // Q, K twice, V
                       BLOCK_KV * HEAD_DIM * static_cast<int>(sizeof(bf16));
  const LaunchConfig config{.grid = grid_of(batch * heads, len_q, BLOCK_Q),
                            .block = {BLOCK_Q / WARP_Q * WARP_SIZE},
                            .smem_bytes = SMEM};
  launch(attention<HEAD_DIM, Breaks>, config,
         Params{.Q = Q,
                .K = K,
                .V = data(args.v),
                .O = data(args.o),
                .LSE = static_cast<float*>(args.lse.data),
                .LSE_offset = offset ? w.LSE_offset : nullptr,
                .group = params.group,
                .scale_log2 = args.scale * 1.44269504f,
                .mask = mask_of(args)},
         breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) { launch_attention<head_dim>(args, breaks); });
}

}  // namespace FA_BACKEND::ch17
