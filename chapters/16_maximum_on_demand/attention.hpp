#pragma once
// Chapter 16: the maximum on demand.
//
// Softmax needs a number to subtract, and nearly any will do: the weights have the range of fp32.
// So a tile is exponentiated by the maximum that is at hand. Its row sums, needed anyway, say
// whether that was good enough; if not, the warp computes its scores again and looks for the
// maximum after all. Masks, grouped heads, log-sum-exp and packed sequences as in chapter 09.
//
//   ./learn diff 16       ch16_maximum_on_demand --shape 1,1,128,512,128 --profile

#include "chapters/16_maximum_on_demand/again.hpp"
#include "chapters/16_maximum_on_demand/epilogue.hpp"

namespace FA_BACKEND::ch16 {

// Begins S = Q @ K.T   [64, BLOCK_KV]. The first wgmma sets S, the others add to it.
template <int HEAD_DIM, int BLOCK_Q, int MMAS_KV>
FA_DEVICE void multiply_query_key(float (&S_rmem)[1][MMAS_KV][4],
                                  uint32_t Q_smem,  // this warpgroup's rows of the tile
                                  uint32_t K_smem) {
  using QTile = Tile<BLOCK_Q>;
  using KTile = Tile<MMAS_KV * MMA_N>;
  wgmma_fence();
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d)
    wgmma<bf16>(S_rmem[0], QTile::columns(Q_smem, mma_d), KTile::columns(K_smem, mma_d), mma_d > 0);
  wgmma_commit();
}

// m' = max(m, rowmax S),   l *= exp(m - m');   true if O has to be multiplied by `rescale`, too
// The exact way, as in chapter 15: m stays until a weight would pass 2^8.
template <int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE bool raise_row_max(float (&m)[MMAS_Q][2], float (&l)[MMAS_Q][2],
                             float (&rescale)[MMAS_Q][2], const float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                             float scale_log2, Breaks breaks) {
  constexpr float MAX_GROWTH = 8.0f;  // log2: weights reach 256, far from any overflow
  float row_max[MMAS_Q][2];
  bool grew = breaks.has(fa::NO_RESCALE);
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {  // row lane/4, then row lane/4 + 8
      row_max[mma_q][half] = NEG_INF;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
        const float* c = &S_rmem[mma_q][mma_kv][half * 2];
        row_max[mma_q][half] = max(row_max[mma_q][half], max(c[0], c[1]));
      }
      // In the first tile m = -inf. Written so that NaN, from -inf - (-inf), counts as grown.
      grew |= !((row_max[mma_q][half] - m[mma_q][half]) * scale_log2 <= MAX_GROWTH);
    }
  if (!warp_any(grew)) return false;

  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const float tile_max =
          quad_reduce(row_max[mma_q][half], breaks, [](float a, float b) { return max(a, b); });
      const float m_old = m[mma_q][half];
      float m_new = max(m_old, tile_max);
      if (breaks.has(fa::NO_RESCALE)) m_new = tile_max;  // each tile by its own maximum
      if (breaks.has(fa::NO_MAX)) m_new = 0.0f;
      m[mma_q][half] = m_new;
      rescale[mma_q][half] =
          breaks.has(fa::NO_RESCALE) ? 1.0f : exp2((m_old - subtrahend(m_new)) * scale_log2);
      l[mma_q][half] *= rescale[mma_q][half];
    }
  return true;
}

// S = exp(scale (S - m)),   sum = this lane's part of rowsum S
template <int MMAS_KV>
FA_DEVICE void exponentiate(float (&S_rmem)[1][MMAS_KV][4], float (&sum)[2], const float (&m)[2],
                            float scale_log2) {
  for (int half = 0; half < 2; ++half) {
    const float m_log2 = m[half] * scale_log2;
    sum[half] = 0.0f;
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
      float* s = &S_rmem[0][mma_kv][half * 2];
      s[0] = exp2(fma(s[0], scale_log2, -m_log2));
      s[1] = exp2(fma(s[1], scale_log2, -m_log2));
      sum[half] += s[0] + s[1];
    }
  }
}

// P = S, rounded, as operand A: what a lane has of S is what it needs of P.
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void pack(uint32_t (&P_rmem)[MMAS_KV / 2][MMAS_Q][4],
                    const float (&S_rmem)[MMAS_Q][MMAS_KV][4]) {
  for (int mma_kv = 0; mma_kv < MMAS_KV / 2; ++mma_kv)
    for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
      for (int i = 0; i < 4; ++i) {
        const float* s = &S_rmem[mma_q][mma_kv * 2 + i / 2][i % 2 * 2];
        P_rmem[mma_kv][mma_q][i] = pack_bf16x2(s[0], s[1]);
      }
}

// Begins O += P @ V   [64, HEAD_DIM]. Nobody transposes V: its descriptor says where the sum runs.
template <int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4],
                                      uint32_t (&P_rmem)[MMAS_KV][MMAS_Q][4], uint32_t V_smem) {
  using VTile = Tile<MMAS_KV * MMA_K>;
  wgmma_fence();  // ordinary instructions have written P
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    wgmma<bf16, Major::mn>(O_rmem[0], P_rmem[mma_kv][0], VTile::rows(V_smem, mma_kv), true);
  wgmma_commit();
}

// Of a row's O: Inf and NaN stay what they are times 0, all else becomes 0.
template <int MMAS_D>
FA_DEVICE bool is_finite(const float (&O_rmem)[1][MMAS_D][4], int half) {
  float zero = 0.0f;
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    for (int i = 0; i < 2; ++i) zero = fma(O_rmem[0][mma_d][half * 2 + i], 0.0f, zero);
  return zero == 0.0f;
}

template <int HEAD_DIM, int CONSUMERS, int BLOCK_KV, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(128 * (1 + CONSUMERS), 1)
void attention(FA_GRID_CONSTANT const Params params, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM * sizeof(bf16);
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % 64 == 0, "whole mma tiles, whole panels");

  const Work work = work_of(params, block_index(), breaks);
  const Mask& mask = work.mask;
  const int block_row = work.q_tile * BLOCK_Q;
  if (block_row >= work.len_q) return;  // of a longer sequence
  const auto tiles_of = [&](int first_row, int rows) {
    const int end = first_row + rows < work.len_q ? first_row + rows : work.len_q;
    return Tiles<BLOCK_KV>(mask, first_row, end - 1);
  };
  const Tiles<BLOCK_KV> tiles = tiles_of(block_row, BLOCK_Q);

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + Q_TILE_BYTES;
  const uint32_t V_smem = K_smem + 2 * KV_TILE_BYTES;
  const uint32_t Q_full = V_smem + 2 * KV_TILE_BYTES;  // mbarriers, 8 bytes each
  const uint32_t V_landed = Q_full + 8;
  const uint32_t K_full = V_landed + 8;  // of either buffer
  const uint32_t V_full = K_full + 16;
  const uint32_t K_empty = V_full + 16;
  const uint32_t V_empty = K_empty + 16;
  const auto buffer = [](uint32_t smem, int n) { return smem + n % 2 * KV_TILE_BYTES; };
  const auto of = [](uint32_t mbarriers, int n) { return mbarriers + n % 2 * 8; };

  if (thread_index() == 0) {
    for (int i = 0; i < 6; ++i) mbarrier_init(Q_full + i * 8, 1);  // one arrival: the producer's
    // One of each warp that computes: its scores may be needed again after the product.
    for (int i = 0; i < 4; ++i) mbarrier_init(K_empty + i * 8, 4 * CONSUMERS);
    fence_mbarrier_init();  // the copy engine sees them
  }
  block_sync();  // nobody waits at an mbarrier that does not exist yet

  if (warp_index() < 4) {
    setmaxnreg_dec<CONSUMERS == 3 ? 32 : 24>();
    if (warp_index() > 0) return;
    const int kv_head = work.head / params.group;
    // It says how many bytes will come, whole tiles also at the end, and asks for them.
    const auto load = [&](uint32_t smem, const TensorMap& map, int first_row, int head,
                          uint32_t bytes, uint32_t full) {
      if (!elect_one()) return;
      mbarrier_arrive_expect_tx(full, bytes);
      tma_load_5d(smem, map, 0, first_row, 0, head, work.batch, full);
    };
    load(Q_smem, params.Q_map, work.q_start + block_row, work.head, Q_TILE_BYTES, Q_full);
    for (int n = 0; n < tiles.count(); ++n) {
      const int key = (tiles.begin + n) * BLOCK_KV, row = work.kv_start + key;
      // All warps have done with the tile that was here. In round 0 none was: of a fresh mbarrier
      // the phase before, of parity 1, counts as complete.
      const int parity = n / 2 % 2 ^ 1;
      mbarrier_wait(of(K_empty, n), parity);
      load(buffer(K_smem, n), params.K_map, row, kv_head, KV_TILE_BYTES, of(K_full, n));
      mbarrier_wait(of(V_empty, n), parity);
      const uint32_t V = buffer(V_smem, n);
      // The rows behind a packed sequence's last key are the next one's. Their weights are 0, but 0
      // times their Inf or NaN is not: they have to be 0, too.
      if (params.kv_starts == nullptr || key + BLOCK_KV <= mask.len_kv) {
        load(V, params.V_map, row, kv_head, KV_TILE_BYTES, of(V_full, n));
        continue;
      }
      load(V, params.V_map, row, kv_head, KV_TILE_BYTES, V_landed);
      mbarrier_wait(V_landed, 0);
      for (int panel = 0; panel < HEAD_DIM / 64; ++panel)
        for (uint32_t byte = (mask.len_kv - key) * 128 + lane_index() * 4; byte < BLOCK_KV * 128;
             byte += 128)
          store_shared<uint32_t>(V + panel * Tile<BLOCK_KV>::PANEL_BYTES + byte, 0);
      fence_proxy_async();  // wgmma sees the zeros
      warp_sync();          // all lanes have stored theirs
      if (elect_one()) mbarrier_arrive(of(V_full, n));
    }
    return;
  }
  setmaxnreg_inc<CONSUMERS == 3 ? 160 : 240>();

  // The same in all lanes; from a shuffle, so that the compiler may keep what follows from it in
  // uniform registers.
  const int consumer = shfl(warp_index() / 4 - 1, 0);
  const uint32_t Q_warpgroup = Q_smem + consumer * 64 * Tile<BLOCK_Q>::ROW_BYTES;
  const int first_row = block_row + consumer * 64;           // of the warpgroup
  const int warp_row = block_row + (warp_index() - 4) * 16;  // of the warp
  // Of the block's tiles these rows need the first `end`, and see whole those between the other two.
  const Tiles<BLOCK_KV> mine = tiles_of(first_row, 64);
  const int end = first_row < work.len_q ? mine.end - tiles.begin : 0;
  const int clear_begin = mine.clear_begin - tiles.begin, clear_end = mine.clear_end - tiles.begin;
  const float scale_log2 = params.scale * 1.44269504f;  // e^x = 2^(x log2 e)

  float O_rmem[1][HEAD_DIM / MMA_N][4] = {};
  float m[1][2];       // what is subtracted: never above the row's maximum
  float l[1][2] = {};  // row sum so far, of this lane's columns
  m[0][0] = m[0][1] = NEG_INF;
  mbarrier_wait(Q_full, 0);

  float S_rmem[1][BLOCK_KV / MMA_N][4];
  uint32_t P_rmem[BLOCK_KV / MMA_K][1][4];  // wgmma may read it until the wait
  float rescale[1][2];
  int raised = 0;  // tiles, since the last vote, in which a maximum moved

  const auto begin_scores = [&](int n) {  // S = Q @ K.T
    if (!breaks.has(fa::MISSING_WAIT)) mbarrier_wait(of(K_full, n), n / 2 % 2);
    multiply_query_key<HEAD_DIM, BLOCK_Q>(S_rmem, Q_warpgroup, buffer(K_smem, n));
  };
  const auto begin_output = [&](int n) {  // O += P @ V
    mbarrier_wait(of(V_full, n), n / 2 % 2);
    multiply_weights_value(O_rmem, P_rmem, buffer(V_smem, n));
  };
  const auto release = [&](uint32_t empty) {
    if (lane_index() == 0) mbarrier_arrive(empty);
  };
  const auto finish_output = [&](int n) {
    wgmma_wait<0>(O_rmem[0]);
    release(of(V_empty, n));
  };

  // S has been computed, and becomes the weights by the maximum so far, which may be raised first.
  const auto softmax_exact = [&](int n, bool edge) {
    float sum[2];
    release(of(K_empty, n));
    if (edge && !breaks.has(fa::UNMASKED_DIAGONAL))
      mask_scores(S_rmem, mask, opaque(warp_row), (tiles.begin + n) * BLOCK_KV);
    const bool grew = raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks);
    const float guarded[2] = {subtrahend(m[0][0]), subtrahend(m[0][1])};
    exponentiate(S_rmem, sum, guarded, scale_log2);
    for (int half = 0; half < 2; ++half) l[0][half] += sum[half];
    return grew;
  };
  // [anchor: on_demand]
  // Likewise, by the maximum at hand: nobody looks at the scores before.
  const auto softmax_on_demand = [&](int n, bool) {
    constexpr float LIMIT = 0x1p50f;  // weights of 2^50 times V of 2^60 are far from fp32's 2^127
    float sum[2];
    if (breaks.has(fa::EARLY_RELEASE)) release(of(K_empty, n));
    exponentiate(S_rmem, sum, m[0], scale_log2);
    // Written so that Inf and NaN are too large. (m = -inf: the weights are inf, or NaN.)
    const bool too_large = !(sum[0] + sum[1] < LIMIT) || breaks.has(fa::NO_RESCALE);
    bool grew = false;
    if (warp_any(too_large) && !breaks.has(fa::NO_SUM_CHECK)) {
      scores_again<HEAD_DIM, BLOCK_Q>(
          S_rmem, Q_smem + (warp_row - block_row) * Tile<BLOCK_Q>::ROW_BYTES, buffer(K_smem, n));
      grew = raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks);
      const float guarded[2] = {subtrahend(m[0][0]), subtrahend(m[0][1])};
      exponentiate(S_rmem, sum, guarded, scale_log2);
      warp_sync();  // all lanes have read K
    }
    if (!breaks.has(fa::EARLY_RELEASE)) release(of(K_empty, n));  // nobody needs it again
    for (int half = 0; half < 2; ++half) l[0][half] += sum[half];
    return grew;
  };
  // [/anchor: on_demand]

  const auto step = [&](int n, bool edge, auto softmax) {
    begin_scores(n);
    begin_output(n - 1);
    wgmma_wait<1>(S_rmem[0]);  // O stays in flight
    const bool grew = softmax(n, edge);
    finish_output(n - 1);
    if (grew) scale_rows(O_rmem, rescale);
    raised += grew;
    pack(P_rmem, S_rmem);
  };
  const auto skip = [&](int n) {  // other warpgroups need it
    if (lane_index() == 0) {
      mbarrier_wait(of(K_full, n), n / 2 % 2);
      mbarrier_arrive(of(K_empty, n));
      mbarrier_wait(of(V_full, n), n / 2 % 2);
      mbarrier_arrive(of(V_empty, n));
    }
    warp_sync();  // no lane waits for the next round before this one is over
  };

  // [anchor: main_loop]
  int n = 0;
  if (n < end) {  // the first tile: there is no maximum at hand, and O is still 0
    begin_scores(n);
    wgmma_wait<0>(S_rmem[0]);
    softmax_exact(n, true);
    pack(P_rmem, S_rmem);
    ++n;
    // The others in rounds, which end at tiles 4, 8, 16, 24 and so on. Edges are masked, and exact.
    // If a maximum moved in the last round, the next is exact: a wrong guess costs more than a
    // look.
    while (n < end) {
      const bool edge = n < clear_begin || n >= clear_end;
      const int next = edge ? (n < clear_begin ? clear_begin : end) : n < 4 ? 4 : (n / 8 + 1) * 8;
      const int most = edge ? end : clear_end;
      const int round_end = next < most ? next : most;
      const bool exact = edge || barrier_red_or(1 + consumer, 128, raised > 0);
      raised = 0;
      if (exact) {
        for (; n < round_end; ++n) step(n, edge, softmax_exact);
      } else {
        for (; n < round_end; ++n) step(n, edge, softmax_on_demand);
      }
      if (edge) raised = 0;  // rows that had not seen a key
    }
    begin_output(n - 1);
    finish_output(n - 1);
  }
  for (; n < tiles.count(); ++n) skip(n);
  // [/anchor: main_loop]

  // [anchor: second_try]
  // Weights of up to 2^50 times a large V may overflow where weights of up to 1 would not.
  const int rows = work.len_q - warp_row;
  bool finite = true;
  for (int half = 0; half < 2; ++half)
    finite &= is_finite(O_rmem, half) || half * 8 + lane_index() / 4 >= rows;
  if (warp_any(!finite) && !breaks.has(fa::NO_SECOND_TRY))
    rows_again(O_rmem, m, l, params, work, warp_row, breaks);
  // [/anchor: second_try]

  for (auto& row : l)
    for (float& sum : row) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
  const int64_t row = work.q_start + warp_row;
  float* LSE = params.LSE;
  if (LSE != nullptr) LSE += (int64_t{work.batch} * params.heads + work.head) * params.len_q + row;
  store_output(params.O.at(work.batch, work.head, 0) + row * params.O.row, LSE, O_rmem, m, l,
               params.scale, rows, params.O.row);
}

template <int HEAD_DIM, int CONSUMERS, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr int BLOCK_KV = CONSUMERS == 2 ? 128 : HEAD_DIM == 128 ? 80 : 112;  // without spills
  constexpr int SMEM_ROWS = BLOCK_Q + 4 * BLOCK_KV;              // Q; then K and V twice
  constexpr size_t SMEM = SMEM_ROWS * HEAD_DIM * sizeof(bf16) +  // and
                          1024 + 10 * 8;                         // to align it; ten mbarriers
  const Params params = params_of(args, BLOCK_Q, BLOCK_KV);
  launch(attention<HEAD_DIM, CONSUMERS, BLOCK_KV, Breaks>, num_blocks(params),
         128 * (1 + CONSUMERS), SMEM, params, breaks);
}

// How many consumers are the fastest.
inline int consumers_of(const fa::ForwardArgs& args) { return args.q.shape[3] == 64 ? 2 : 3; }

// What host code calls. (A template: compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) {
    const int asked = args.options[0];
    if (asked == 1) throw fa::InputError("--consumers 1: this chapter takes 2 or 3");
    const int consumers = asked != 0 ? asked : consumers_of(args);
    if (consumers == 2) return launch_attention<head_dim, 2>(args, breaks);
    launch_attention<head_dim, 3>(args, breaks);
  });
}

}  // namespace FA_BACKEND::ch16
