#pragma once
// Chapter 16: the maximum on demand.
//
// Softmax needs a number to subtract, and nearly any works, because weights have the range of fp32.
// So a tile is exponentiated with the current maximum, even if it is out of date. The row sums,
// which are needed anyway, show whether it was good enough. If not, the warp recomputes its scores
// and finds the maximum. Masks, grouped heads, log-sum-exp, packed sequences as in chapter 09.
//
//   ./learn diff 16       ch16_maximum_on_demand --shape 1,1,128,512,128 --profile
//
// 711 TFLOP/s at (2,16,8192,8192,128) on an H200, cuDNN 620 in the same run. For sm_90a.

#include "chapters/16_maximum_on_demand/again.hpp"
#include "common/kernels/wide_epilogue.hpp"

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

// Begins O += P @ V   [64, HEAD_DIM]. V is not transposed: its descriptor sets the sum's direction.
template <int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4],
                                      uint32_t (&P_rmem)[MMAS_KV][MMAS_Q][4], uint32_t V_smem) {
  using VTile = Tile<MMAS_KV * MMA_K>;
  wgmma_fence();  // ordinary instructions have written P
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    wgmma<bf16, Major::mn>(O_rmem[0], P_rmem[mma_kv][0], VTile::rows(V_smem, mma_kv), true);
  wgmma_commit();
}

template <int HEAD_DIM, int CONSUMERS, int BLOCK_KV, bool RESIDENT, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(128 * (1 + CONSUMERS), 1)
void attention(FA_GRID_CONSTANT const Params params, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM * sizeof(bf16);
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % 64 == 0, "whole mma tiles, whole panels");

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + Q_TILE_BYTES;
  const uint32_t V_smem = K_smem + 2 * KV_TILE_BYTES;
  const uint32_t Q_full = V_smem + 2 * KV_TILE_BYTES;  // mbarriers, 8 bytes each
  const uint32_t all_landed = Q_full + 8;
  const uint32_t K_full = all_landed + 8;  // one per buffer
  const uint32_t V_full = K_full + 16;
  const uint32_t K_empty = V_full + 16;
  const uint32_t V_empty = K_empty + 16;
  const uint32_t Q_empty = V_empty + 16;

  if (thread_index() == 0) {
    for (int i = 0; i < 6; ++i) mbarrier_init(Q_full + i * 8, 1);  // one arrival: the producer's
    // One arrival per warp that computes, because it may need K again after the product.
    for (int i = 0; i < 5; ++i) mbarrier_init(K_empty + i * 8, 4 * CONSUMERS);
    fence_mbarrier_init();  // makes them visible to the copy engine
  }
  block_sync();  // no thread waits on an mbarrier before it is initialized

  if (warp_index() < 4) {
    setmaxnreg_dec<CONSUMERS == 3 ? 32 : 24>();
    if (warp_index() > 0) return;
    // Announces how many bytes will come (a whole tile, even at the end), and issues the load.
    const auto ask = [&](uint32_t smem, const TensorMap& map, int first_row, int head, int batch,
                         uint32_t bytes, uint32_t full) {
      if (!elect_one()) return;
      mbarrier_arrive_expect_tx(full, bytes);
      tma_load_5d(smem, map, 0, first_row, 0, head, batch, full);
    };
    // Rows after a packed sequence's last belong to the next sequence and become zeros. V's have
    // weight 0, but 0 times Inf or NaN is NaN. With Q's, a warp might recompute a tile.
    int landed = 0;
    const auto load = [&](auto height, uint32_t smem, const TensorMap& map, int first_row, int head,
                          int batch, int own_rows, uint32_t full) {
      constexpr int HEIGHT = decltype(height)::value;
      using Rows = Tile<HEIGHT>;
      const bool foreign = params.q_starts != nullptr && own_rows < HEIGHT;
      ask(smem, map, first_row, head, batch, HEAD_DIM / 64 * Rows::PANEL_BYTES,
          foreign ? all_landed : full);
      if (!foreign) return;
      mbarrier_wait(all_landed, landed++ % 2);
      for (int panel = 0; panel < HEAD_DIM / 64; ++panel)
        for (uint32_t byte = own_rows * Rows::ROW_BYTES + lane_index() * 4;
             byte < Rows::PANEL_BYTES; byte += Rows::ROW_BYTES)
          store_shared<uint32_t>(smem + panel * Rows::PANEL_BYTES + byte, 0);
      fence_proxy_async();  // wgmma sees the zeros
      warp_sync();          // all lanes have stored their zeros
      if (elect_one()) mbarrier_arrive(full);
    };
    constexpr std::integral_constant<int, BLOCK_Q> Q_rows;
    constexpr std::integral_constant<int, BLOCK_KV> KV_rows;
    const auto buffer = [](uint32_t smem, int n) { return smem + n % 2 * KV_TILE_BYTES; };
    const auto of = [](uint32_t mbarriers, int n) { return mbarriers + n % 2 * 8; };
    int n = 0;  // tiles of K and V so far
    int Q_tiles = 0;
    for (int index = block_index(); index < params.num_q_tiles; index += grid_size().x) {
      const Work work = work_of(params, index, breaks);
      const int block_row = work.q_tile * BLOCK_Q, kv_head = work.head / params.group;
      if (block_row >= work.len_q) continue;  // tile of a longer sequence
      const Tiles<BLOCK_KV> tiles = tiles_of<BLOCK_KV>(work, block_row, BLOCK_Q);
      if (tiles.count() <= 0) continue;  // no query sees a key
      mbarrier_wait(Q_empty, Q_tiles++ % 2 ^ 1);
      load(Q_rows, Q_smem, params.Q_map, work.q_start + block_row, work.head, work.batch,
           work.len_q - block_row, Q_full);
      for (int tile = tiles.begin; tile < tiles.end; ++tile, ++n) {
        const int key = tile * BLOCK_KV, row = work.kv_start + key;
        // Waits until all warps have read the tile that was here. Before the first tile there was
        // none, but on a new mbarrier the previous phase, of parity 1, counts as complete.
        const int parity = n / 2 % 2 ^ 1;
        mbarrier_wait(of(K_empty, n), parity);
        ask(buffer(K_smem, n), params.K_map, row, kv_head, work.batch, KV_TILE_BYTES,
            of(K_full, n));
        mbarrier_wait(of(V_empty, n), parity);
        load(KV_rows, buffer(V_smem, n), params.V_map, row, kv_head, work.batch,
             work.mask.len_kv - key, of(V_full, n));
      }
      if (!RESIDENT) return;
    }
    return;
  }
  setmaxnreg_inc<CONSUMERS == 3 ? 160 : 240>();

  // Equal in all lanes. The shuffle tells the compiler, so that it may keep values that depend on
  // it in uniform registers.
  const int consumer = shfl(warp_index() / 4 - 1, 0);
  const uint32_t Q_warpgroup = Q_smem + consumer * 64 * Tile<BLOCK_Q>::ROW_BYTES;
  const float scale_log2 = params.scale * 1.44269504f;  // e^x = 2^(x log2 e)
  const auto release = [&](uint32_t empty) {
    if (lane_index() == 0) mbarrier_arrive(empty);
  };
  const auto store = [&](const Work& work, int warp_row, float(&O_rmem)[1][HEAD_DIM / MMA_N][4],
                         float(&m)[1][2], float(&l)[1][2]) {
    for (float& sum : l[0]) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
    if (std::is_empty_v<Breaks> && params.sinks != nullptr)
      add_sink(O_rmem, m, l, sink_of(params, work.head), scale_log2);
    const int64_t row = work.q_start + warp_row;
    float* LSE = params.LSE;
    if (LSE != nullptr)
      LSE += (int64_t{work.batch} * params.heads + work.head) * params.len_q + row;
    store_output(params.O.at(work.batch, work.head, 0) + row * params.O.row, LSE, O_rmem, m, l,
                 params.scale, work.len_q - warp_row, params.O.row);
  };
  int filled = 0;  // tiles of K and V for earlier tiles of queries
  int Q_tiles = 0;
  uint32_t overflows = 0;  // bit i: in this block's i-th tile of queries, modulo 32
  for (int index = block_index(); index < params.num_q_tiles; index += grid_size().x) {
    const Work work = work_of(params, index, breaks);
    const int block_row = work.q_tile * BLOCK_Q;
    if (block_row >= work.len_q) continue;  // tile of a longer sequence
    const Tiles<BLOCK_KV> tiles = tiles_of<BLOCK_KV>(work, block_row, BLOCK_Q);
    const int first_row = block_row + consumer * 64;           // first query of the warpgroup
    const int warp_row = block_row + (warp_index() - 4) * 16;  // first query of the warp
    // These rows need the block's first `end` tiles, and see the tiles between the other two whole.
    const Tiles<BLOCK_KV> mine = tiles_of<BLOCK_KV>(work, first_row, 64);
    const int end = first_row < work.len_q ? mine.end - tiles.begin : 0;
    const int clear_begin = mine.clear_begin - tiles.begin;
    const int clear_end = mine.clear_end - tiles.begin;
    const int count = tiles.count() > 0 ? tiles.count() : 0;
    // The n-th of them is the (filled + n)-th in the ring of two buffers.
    const auto buffer = [&](uint32_t smem, int n) {
      return smem + (filled + n) % 2 * KV_TILE_BYTES;
    };
    const auto of = [&](uint32_t mbarriers, int n) { return mbarriers + (filled + n) % 2 * 8; };
    const auto parity = [&](int n) { return (filled + n) / 2 % 2; };

    float O_rmem[1][HEAD_DIM / MMA_N][4] = {};
    float m[1][2] = {{NEG_INF, NEG_INF}};  // what is subtracted, at most the row's maximum
    float l[1][2] = {};                    // running row sum of this lane's columns
    float S_rmem[1][BLOCK_KV / MMA_N][4];
    uint32_t P_rmem[BLOCK_KV / MMA_K][1][4];  // wgmma may read it until the wait
    bool raised = false;                      // a maximum moved since the last vote

    const auto begin_scores = [&, breaks](int n) {  // S = Q @ K.T
      if (!breaks.has(fa::MISSING_WAIT)) mbarrier_wait(of(K_full, n), parity(n));
      multiply_query_key<HEAD_DIM, BLOCK_Q>(S_rmem, Q_warpgroup, buffer(K_smem, n));
    };
    const auto begin_output = [&](int n) {  // O += P @ V
      mbarrier_wait(of(V_full, n), parity(n));
      multiply_weights_value(O_rmem, P_rmem, buffer(V_smem, n));
    };
    const auto finish_output = [&](int n) {
      wgmma_wait<0>(O_rmem[0]);
      release(of(V_empty, n));
    };

    // Turns the finished S into weights, with a maximum that is raised first if needed. The tile is
    // exact.
    const auto softmax = [&, breaks](int n, bool edge, float(&rescale)[1][2]) {
      release(of(K_empty, n));
      if (edge && !breaks.has(fa::UNMASKED_DIAGONAL))
        mask_scores(S_rmem, work.mask, opaque(warp_row), (tiles.begin + n) * BLOCK_KV);
      const bool grew = raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks);
      exponentiate(S_rmem, l[0], m[0], scale_log2);
      return grew;
    };
    const auto step_exact = [&](int n, bool edge) {
      begin_scores(n);
      begin_output(n - 1);
      wgmma_wait<1>(S_rmem[0]);  // O stays in flight
      float rescale[1][2];
      const bool grew = softmax(n, edge, rescale);
      finish_output(n - 1);
      if (grew) scale_rows(O_rmem, rescale);
      raised |= grew;
      pack(P_rmem, S_rmem);
    };
    // [anchor: on_demand]
    const auto step_on_demand = [&, breaks](int n) {
      begin_scores(n);
      begin_output(n - 1);
      wgmma_wait<1>(S_rmem[0]);
      if (breaks.has(fa::EARLY_RELEASE)) release(of(K_empty, n));
      float sum[2] = {};
      exponentiate(S_rmem, sum, m[0], scale_log2);  // with the current maximum
      finish_output(n - 1);
      // Weights of 2^50 times a V of 2^60 are far below fp32's 2^127. Written so that Inf and NaN
      // count as too large. (m = -inf is not foldable.)
      const bool too_large = !(sum[0] + sum[1] < 0x1p50f) || !is_foldable(m[0][0], scale_log2) ||
                             !is_foldable(m[0][1], scale_log2) || breaks.has(fa::NO_RESCALE);
      if (warp_any(too_large) && !breaks.has(fa::NO_SUM_CHECK)) {
        scores_again<HEAD_DIM, BLOCK_Q>(
            S_rmem, Q_smem + opaque(warp_row - block_row) * Tile<BLOCK_Q>::ROW_BYTES,
            buffer(K_smem, n));
        float rescale[1][2];
        if (raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks)) scale_rows(O_rmem, rescale);
        sum[0] = sum[1] = 0.0f;
        exponentiate(S_rmem, sum, m[0], scale_log2);
        raised = true;
        warp_sync();  // all lanes have read K
      }
      if (!breaks.has(fa::EARLY_RELEASE)) release(of(K_empty, n));  // not needed any more
      for (int half = 0; half < 2; ++half) l[0][half] += sum[half];
      pack(P_rmem, S_rmem);
    };
    // [/anchor: on_demand]
    const auto skip = [&](int n) {  // other warpgroups need it
      if (lane_index() == 0) {
        mbarrier_wait(of(K_full, n), parity(n));
        mbarrier_arrive(of(K_empty, n));
        mbarrier_wait(of(V_full, n), parity(n));
        mbarrier_arrive(of(V_empty, n));
      }
      warp_sync();  // no lane waits for the next phase before this one is complete
    };

    // [anchor: main_loop]
    if (count > 0) mbarrier_wait(Q_full, Q_tiles++ % 2);
    int n = 0;
    if (n < end) {  // the first tile, where there is no maximum yet, and O is still 0
      begin_scores(n);
      wgmma_wait<0>(S_rmem[0]);
      float rescale[1][2];
      softmax(n, clear_begin > 0 || clear_end < 1, rescale);
      pack(P_rmem, S_rmem);
      ++n;
      // The others come in groups that end at tile 4, 8, 16, 24 and so on. Edges are masked and
      // exact. If a maximum moved in the last group, the next group is exact too, because
      // recomputing costs more than finding the maximum first.
      while (n < end) {
        const bool edge = n < clear_begin || n >= clear_end;
        const int next = edge ? (n < clear_begin ? clear_begin : end) : n < 4 ? 4 : (n / 8 + 1) * 8;
        const int most = edge ? end : clear_end;
        const int round_end = next < most ? next : most;
        const bool exact = edge || (n > 1 && barrier_red_or(1 + consumer, 128, raised));
        raised = false;
        if (exact) {
          for (; n < round_end; ++n) step_exact(n, edge);
        } else {
          for (; n < round_end; ++n) step_on_demand(n);
        }
        if (edge) raised = false;  // rows that had not seen a key
      }
      release(Q_empty);  // the next tile of queries may be loaded
      begin_output(n - 1);
      finish_output(n - 1);
    } else if (count > 0) {  // these rows are fully masked, or do not exist
      warp_sync();           // all lanes have waited
      release(Q_empty);
    }
    for (; n < count; ++n) skip(n);
    filled += count;
    // [/anchor: main_loop]

    // [anchor: overflow]
    // Weights of up to 2^50 times a large V may overflow where weights of up to 2^8 would not.
    const int rows = work.len_q - warp_row;
    bool finite = true;
    for (int half = 0; half < 2; ++half)
      finite &= is_finite(O_rmem, half) || half * 8 + lane_index() / 4 >= rows;
    if (warp_any(!finite) && !breaks.has(fa::NO_SECOND_TRY)) {
      if (RESIDENT) {
        overflows |= 1u << index / grid_size().x % 32;
      } else {
        rows_again(O_rmem, m, l, params, work, warp_row, scale_log2, breaks);
      }
    }
    // [/anchor: overflow]
    store(work, warp_row, O_rmem, m, l);
    if (!RESIDENT) return;
  }

  // [anchor: second_try]
  if (overflows == 0) return;
  for (int index = block_index(); index < params.num_q_tiles; index += grid_size().x) {
    const Work work = work_of(params, index, breaks);
    const int warp_row = work.q_tile * BLOCK_Q + (warp_index() - 4) * 16;
    if (work.q_tile * BLOCK_Q >= work.len_q || (overflows >> index / grid_size().x % 32 & 1) == 0)
      continue;
    float O_rmem[1][HEAD_DIM / MMA_N][4], m[1][2], l[1][2];
    rows_again(O_rmem, m, l, params, work, warp_row, scale_log2, breaks);
    store(work, warp_row, O_rmem, m, l);
  }
  // [/anchor: second_try]
}

template <int HEAD_DIM, int CONSUMERS, int BLOCK_KV, bool RESIDENT, class Breaks>
void launch_blocks(const fa::ForwardArgs& args, int blocks, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr int SMEM_ROWS = BLOCK_Q + 4 * BLOCK_KV;              // Q, then K and V twice
  constexpr size_t SMEM = SMEM_ROWS * HEAD_DIM * sizeof(bf16) +  // and
                          1024 + 11 * 8;  // to align it, and eleven mbarriers
  const Params params = params_of(args, BLOCK_Q, BLOCK_KV);
  launch(attention<HEAD_DIM, CONSUMERS, BLOCK_KV, RESIDENT, Breaks>,
         RESIDENT ? std::min(blocks, params.num_q_tiles) : params.num_q_tiles,
         128 * (1 + CONSUMERS), SMEM, params, breaks);
}

template <int HEAD_DIM, int SMALL_TILE = 128, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  const int asked_consumers = args.options[0], asked_blocks = args.options[1];
  if (asked_consumers == 1) throw fa::InputError("--consumers 1: this chapter takes 2 or 3");
  const int blocks = asked_blocks != 0 ? asked_blocks : multiprocessors();
  const int consumers = asked_consumers != 0 ? asked_consumers : consumers_of(args, blocks);
  // Tile sizes for long rows and for short ones, each the largest without spills.
  constexpr int LONG = HEAD_DIM == 128 ? 80 : 128, SHORT = HEAD_DIM == 128 ? 64 : SMALL_TILE;
  if (consumers == 2) return launch_blocks<HEAD_DIM, 2, 128, true>(args, blocks, breaks);
  const bool one_each = asked_blocks == 0 && has_long_rows(args);
  if (one_each) return launch_blocks<HEAD_DIM, 3, LONG, false>(args, blocks, breaks);
  launch_blocks<HEAD_DIM, 3, SHORT, true>(args, blocks, breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto which) {  // run-time breaks take a register or two
    launch_attention<head_dim, std::is_empty_v<decltype(which)> ? 128 : 112>(args, which);
  });
}

}  // namespace FA_BACKEND::ch16
