#pragma once
// Chapter 09: masks and shapes.
//
// Chapter 08's kernel as models call it. A tile of queries visits only the tiles of keys that one
// of its rows sees, first those that all rows see whole, then the edges, which alone need a mask.
// Causal and sliding windows are two limits of one mask. Several query heads may share a head of K
// and V, rows may have any distance, a tensor may hold sequences of different lengths, and the
// log-sum-exp of each row is an output.
//
//   ./learn diff 09       ch09_masks_and_shapes --shape 1,1,512,512,128 --causal --profile
//
// 380 TFLOP/s at (2,16,8192,8192,128), causal, on an H200, where PyTorch's FlashAttention-2 reaches
// 297.

#include <type_traits>

#include "chapters/09_masks_and_shapes/epilogue.hpp"
#include "chapters/09_masks_and_shapes/params.hpp"
#include "common/kernels/launch.hpp"

namespace FA_BACKEND::ch09 {

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

// One head of a tensor in global memory: [rows, cols], rows `stride` bytes apart.
struct Rows {
  const char* data;
  int rows, cols;
  uint32_t stride;
};

// Starts copying rows [tile * HEIGHT, (tile + 1) * HEIGHT) of one head from global to shared
// memory, 16 bytes per thread at a time, so that adjacent threads copy adjacent chunks. Elements
// outside [rows, cols] are not read and become zeros. A head takes less than 4 GB, so 32 bits are
// enough for the offset from its start.
template <int HEIGHT, int HEAD_DIM, int NUM_THREADS>
FA_DEVICE void load_tile(uint32_t smem, const Rows& gmem, int tile, FA_SITE) {
  constexpr int CHUNK = 16 / sizeof(bf16);   // elements in 16 bytes
  constexpr int STEP = NUM_THREADS * CHUNK;  // elements that all threads copy at a time
  constexpr int STEP_ROWS = STEP / HEAD_DIM;
  static_assert(HEIGHT % STEP_ROWS == 0, "every thread copies the same number of chunks");
  static_assert(STEP_ROWS % 8 == 0, "the swizzle repeats every 8 rows: one swizzle per thread");

  const int element = thread_index() * CHUNK;  // start of this thread's first chunk
  const int row = tile * HEIGHT + element / HEAD_DIM, col = element % HEAD_DIM;
  const int rows_left = col < gmem.cols ? gmem.rows - row : 0;
  const uint32_t offset = row * gmem.stride + col * sizeof(bf16);
  const char* src = gmem.data + offset;
  const uint32_t dst = smem + swizzle<HEAD_DIM * sizeof(bf16)>(element * sizeof(bf16));
  for (int step = 0; step < HEIGHT / STEP_ROWS; ++step) {
    const int source_bytes = step * STEP_ROWS < rows_left ? 16 : 0;
    cp_async_16(dst + step * STEP * sizeof(bf16), src, source_bytes, line, file);
    src += STEP_ROWS * gmem.stride;
  }
}

// S += Q @ K.T   [WARP_Q, BLOCK_KV]
// Operand B needs, for each key, adjacent elements along HEAD_DIM in a register, as in K's rows.
// swizzle(lane + column) = swizzle(lane) ^ column, because their bits do not overlap.
template <class T, int HEAD_DIM, int MMAS_Q, int MMAS_KV, class Breaks>
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
    for (int mma_kv = 0; mma_kv < MMAS_KV; mma_kv += 2) {
      uint32_t K_rmem[4];
      ldmatrix_x4(K_rmem, K_smem + mma_kv * MMA_N * ROW_BYTES + (K_lane ^ col_offset));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16<T>(Q_rmem[mma_q], {K_rmem[0], K_rmem[1]}, S_rmem[mma_q][mma_kv]);
        mma_m16n8k16<T>(Q_rmem[mma_q], {K_rmem[2], K_rmem[3]}, S_rmem[mma_q][mma_kv + 1]);
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
          breaks.has(fa::NO_RESCALE) ? 1.0f : exp2((m_old - guarded(m_new, breaks)) * scale_log2);
      l[mma_q][half] *= rescale[mma_q][half];
    }
  scale_rows(O_rmem, rescale);
  subtract_large_max(S_rmem, m, scale_log2);
}

// P = exp(scale (S - m)) for 16 keys, as operand A,   l += this lane's part of rowsum P
// exp(scale (s - m)) = 2^(s scale_log2 - m scale_log2): one FMA and one exponential.
template <class T, int MMAS_Q, int MMAS_KV>
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
      P_rmem[mma_q][i] = pack<T>(p0, p1);
    }
}

// O += exp(S - m) @ V   [WARP_Q, HEAD_DIM]
// The sum runs over keys, so operand B needs elements that are adjacent along the keys, but V's
// rows are contiguous along HEAD_DIM, so ldmatrix transposes each 8x8 matrix. The exponentials of
// the next 16 keys do not wait for the mma of these, because the two units work in parallel.
template <class T, int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4], float (&l)[MMAS_Q][2],
                                      const float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                      const float (&m)[MMAS_Q][2], float scale_log2,
                                      uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  // keys 0-7, d 0-7 | keys 8-15, d 0-7 | keys 0-7, d 8-15 | keys 8-15, d 8-15
  const uint32_t V_lane =
      swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  for (int mma_kv = 0; mma_kv < MMAS_KV / 2; ++mma_kv) {
    uint32_t P_rmem[MMAS_Q][4];
    exponentiate<T>(P_rmem, l, S_rmem, mma_kv, m, scale_log2);
    for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
      uint32_t V_rmem[4];
      const uint32_t col_offset = mma_d * MMA_N * sizeof(bf16);
      ldmatrix_x4_trans(V_rmem, V_smem + mma_kv * MMA_K * ROW_BYTES + (V_lane ^ col_offset));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16<T>(P_rmem[mma_q], {V_rmem[0], V_rmem[1]}, O_rmem[mma_q][mma_d]);
        mma_m16n8k16<T>(P_rmem[mma_q], {V_rmem[2], V_rmem[3]}, O_rmem[mma_q][mma_d + 1]);
      }
    }
  }
}

// The second number requests at least one block per SM, so that the compiler may use all 255
// registers of a thread. Otherwise it may save registers and load fragments too late.
template <class T, int HEAD_DIM, int BLOCK_Q, int BLOCK_KV, int NUM_WARPS, class Modifier,
          class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(32 * NUM_WARPS, 1)
void attention(const Params params, Breaks breaks) {
  constexpr int NUM_THREADS = NUM_WARPS * WARP_SIZE;
  constexpr int WARP_Q = BLOCK_Q / NUM_WARPS;
  constexpr uint32_t ROW_BYTES = HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * ROW_BYTES;
  constexpr int MMAS_Q = WARP_Q / MMA_M, MMAS_KV = BLOCK_KV / MMA_N;
  using Scores = float[MMAS_Q][MMAS_KV][4];  // g++ 12 fails on the array type in the lambda below
  static_assert(BLOCK_Q % (NUM_WARPS * MMA_M) == 0, "every warp owns whole 16-row mma tiles");
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % MMA_K == 0, "tiles are whole mma tiles");

  // [anchor: longest_first]
  // One block per BLOCK_Q rows of each head. Blocks start in the order of their index, heads first,
  // so the tiles at the end of the sequence, which see the most keys, start before the others and
  // the last ones to run are short.
  const auto [head, y, batch] = block_index_3d();
  const int q_tile = grid_size().y - 1 - y;
  // [/anchor: longest_first]
  const Sequence sequence = sequence_of(params, batch, breaks);
  const Mask& mask = sequence.mask;
  const int first_row = q_tile * BLOCK_Q;   // first query of this block
  if (first_row >= sequence.len_q) return;  // tile of a longer one

  // [anchor: heads]
  const int kv_head =
      breaks.has(fa::MODULO_HEADS) ? head % (params.heads / params.group) : head / params.group;
  // [/anchor: heads]
  const auto rows = [&](const Tensor& tensor, int64_t start, int of_head, int len) {
    return Rows{tensor.data + start + of_head * tensor.head, len, params.dim, tensor.row};
  };
  const Rows Q = rows(params.Q, sequence.Q_start, head, sequence.len_q);
  const Rows K = rows(params.K, sequence.K_start, kv_head, mask.len_kv);
  const Rows V = rows(params.V, sequence.V_start, kv_head, mask.len_kv);

  const int end_row = first_row + BLOCK_Q < sequence.len_q ? first_row + BLOCK_Q : sequence.len_q;
  const Tiles<BLOCK_KV> tiles(mask, first_row, end_row - 1);
  tile_row(q_tile, ceil_div(mask.len_kv, BLOCK_KV));
  // Equal in all lanes. The shuffle tells the compiler, so that it keeps the value once per warp.
  const int warp_row = first_row + shfl(warp_index(), 0) * WARP_Q;

  const Modifier modifier(params.modifiers, head);
  const float scale = Modifier::EXISTS ? 1.0f : params.scale;  // not yet in the scores
  const float scale_log2 = scale * 1.44269504f;                // e^x = 2^(x log2 e)

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + BLOCK_Q * ROW_BYTES;
  const uint32_t V_smem = K_smem + 2 * KV_TILE_BYTES;
  const auto buffer = [](uint32_t smem, int n) { return smem + n % 2 * KV_TILE_BYTES; };

  float O_rmem[MMAS_Q][HEAD_DIM / MMA_N][4] = {};
  float m[MMAS_Q][2];       // row maximum, up to 8 too small in log2
  float l[MMAS_Q][2] = {};  // running row sum of this lane's columns
  // [anchor: sink]
  // A sink is a score without a key. It takes part in the sum and adds nothing to O. So m and l do
  // not start at -inf and 0, but at the sink, not scaled as m is not, and 1. The quad's four lanes
  // are added up, so only one of them counts it.
  const float sink = params.sinks == nullptr ? NEG_INF : load_global(params.sinks + head) / scale;
  const bool counts =
      params.sinks != nullptr && lane_index() % 4 == 0 && !breaks.has(fa::SINK_NOT_RESCALED);
  for (auto& row : m) row[0] = row[1] = sink;
  for (auto& row : l) row[0] = row[1] = counts ? 1.0f : 0.0f;
  // [/anchor: sink]

  // wait_group counts groups. Each call commits one, even if there is no tile left to copy, so that
  // the count in the loop is right up to the last tile.
  const auto load_K = [&, breaks](int n) {  // the n-th tile to visit
    const bool exists = n < tiles.count();
    if (exists) load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(buffer(K_smem, n), K, tiles.visit(n));
    if (exists || !breaks.has(fa::CONDITIONAL_COMMIT)) cp_async_commit();
  };

  const auto load_V = [&](int n) {
    load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(V_smem, V, tiles.visit(n));
    cp_async_commit();
  };

  const auto step = [&](int n, auto masked) {  // the n-th tile of keys
    // All warps have read the last tile's V, so this tile's may overwrite it.
    if (!breaks.has(fa::MISSING_BARRIER)) block_sync();
    load_V(n);
    if (!breaks.has(fa::MISSING_WAIT)) cp_async_wait<1>();  // V stays in flight
    block_sync();  // every thread's part of this K has landed

    Scores S_rmem = {};
    multiply_query_key<T, HEAD_DIM>(S_rmem, Q_smem + (warp_row - first_row) * ROW_BYTES,
                                    buffer(K_smem, n), breaks);  // S = Q @ K.T
    load_K(n + 1);
    tile_visit(tiles.visit(n), masked.value);
    change_scores<masked.value>(S_rmem, modifier, params.scale, mask, warp_row,
                                tiles.visit(n) * BLOCK_KV, breaks);

    raise_row_max(m, l, O_rmem, S_rmem, scale_log2, breaks);  // m' = max(m, rowmax S), if needed

    breaks.has(fa::WAIT_TOO_FEW) ? cp_async_wait<2>() : cp_async_wait<1>();  // the next K stays
    // Every thread's part of this V has landed, and all warps have read this tile's K, whose buffer
    // the next load_K fills.
    if (!breaks.has(fa::DIVERGENT_BARRIER) || warp_index() == 0) block_sync();

    // O += exp(S - m) @ V
    multiply_weights_value<T>(O_rmem, l, S_rmem, m, scale_log2, V_smem);
  };

  // [anchor: main_loop]
  load_tile<BLOCK_Q, HEAD_DIM, NUM_THREADS>(Q_smem, Q, q_tile);  // in K's first group
  load_K(0);
  int n = 0;
  const int clear = breaks.has(fa::MASK_EVERY_TILE) ? 0 : tiles.clear_count();
  for (; n < clear; ++n) step(n, std::false_type{});
  for (; n < tiles.count(); ++n) step(n, std::true_type{});
  // [/anchor: main_loop]

  for (auto& row : l)
    for (float& sum : row) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
  if (breaks.has(fa::SINK_NOT_RESCALED) && params.sinks != nullptr)  // its weight at the start
    for (auto& row : l) row[0] += 1.0f, row[1] += 1.0f;
  char* O =
      params.O.data + sequence.O_start + head * params.O.head + int64_t{warp_row} * params.O.row;
  float* LSE = params.LSE;
  if (LSE != nullptr) LSE += sequence.LSE_start + head * params.LSE_head + warp_row;
  store_output<T>(O, LSE, O_rmem, m, l, scale, sequence.len_q - warp_row, params.dim, params.O.row);
}

template <int HEAD_DIM, class T = bf16, class Modifier = NoModifier, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  // The largest without spills on sm_90. A modifier needs additional registers.
  constexpr int BLOCK_KV =
      HEAD_DIM == 64 ? (Modifier::EXISTS ? 80 : 128) : (Modifier::EXISTS ? 32 : 64);
  constexpr int BLOCK_Q = 128;
  constexpr int NUM_WARPS = HEAD_DIM == 256 ? 8 : 4;  // O of 32 rows would take 256 registers
  constexpr int SMEM_ROWS = BLOCK_Q + 3 * BLOCK_KV;   // Q, then K twice and V
  const Params params = params_of(args);
  const LaunchConfig config{.grid = grid_of(args, BLOCK_Q),
                            .block = {NUM_WARPS * WARP_SIZE},
                            .smem_bytes = SMEM_ROWS * HEAD_DIM * sizeof(bf16)};
  launch(attention<T, HEAD_DIM, BLOCK_Q, BLOCK_KV, NUM_WARPS, Modifier, Breaks>, config, params,
         breaks);
}

// Called by host code. Computes O, and LSE if it is wanted, of the problem in `args`. (A template,
// so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  const auto with_modifier = [&](auto head_dim, auto modifier) {
    using Modifier = typename decltype(modifier)::type;
    if (args.breaks != 0) {
      return launch_attention<head_dim, bf16, Modifier>(args, RuntimeBreaks{args.breaks});
    }
    if (args.q.dtype == fa::Dtype::f16) {
      return launch_attention<head_dim, fa::fp16, Modifier>(args, NoBreaks{});
    }
    return launch_attention<head_dim, bf16, Modifier>(args, NoBreaks{});
  };
  const auto with_size = [&](auto head_dim) {
    const bool modified = args.softcap > 0 || args.alibi;
    if (modified) return with_modifier(head_dim, std::type_identity<SoftcapAndAlibi>{});
    with_modifier(head_dim, std::type_identity<NoModifier>{});
  };
  if (args.q.shape[3] <= 64) return with_size(std::integral_constant<int, 64>{});
  if (args.q.shape[3] <= 128) return with_size(std::integral_constant<int, 128>{});
  with_size(std::integral_constant<int, 256>{});
}

}  // namespace FA_BACKEND::ch09
