#pragma once
// Chapter 15: overlap.
//
// A consumer no longer waits for a product before it issues the next. It issues S of the next tile,
// then O of this one, and waits only for S. While the tensor cores add to O, it computes the
// exponentials of the next tile. With --ping-pong 1 the consumers also take turns.
//
//   ./learn diff 15       ch15_overlap --shape 1,1,128,512,128 --profile
//
// 706 TFLOP/s at (2,16,8192,8192,128) on an H200, cuDNN 626 in the same run. For sm_90a.

#include "breaks.hpp"
#include "common/kernels/epilogue.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/softmax.hpp"
#include "common/kernels/wgmma_tile.hpp"

namespace FA_BACKEND::ch15 {

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

// m' = max(m, rowmax S),   l *= exp(m - m');   true if O has to be multiplied by `rescale` too
// Any m is correct if O and l are summed with the same m and no exponential overflows. So m stays
// until a weight would exceed 2^8, which is rare after the first tiles. To detect that, each lane
// checks its own columns and the warp votes. Shuffles are needed only for tiles in which m changes.
template <int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE bool raise_row_max(float (&m)[MMAS_Q][2], float (&l)[MMAS_Q][2],
                             float (&rescale)[MMAS_Q][2], float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                             float scale_log2, Breaks breaks) {
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
  if (!warp_any(grew)) return false;

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
  subtract_large_max(S_rmem, m, scale_log2);
  return true;
}

// S = exp(scale (S - m)),   l += this lane's part of rowsum S
// One FMA and one exponential. In place, because the product in flight still reads P's registers.
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void exponentiate(float (&S_rmem)[MMAS_Q][MMAS_KV][4], float (&l)[MMAS_Q][2],
                            const float (&m)[MMAS_Q][2], float scale_log2) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      for (int half = 0; half < 2; ++half) {
        float* s = &S_rmem[mma_q][mma_kv][half * 2];
        const float m_log2 = folded_max(m[mma_q][half], scale_log2);
        s[0] = exp2(fma(s[0], scale_log2, -m_log2));
        s[1] = exp2(fma(s[1], scale_log2, -m_log2));
        l[mma_q][half] += s[0] + s[1];
      }
}

// P = S, rounded, as operand A, because a lane needs the elements of P whose S it has.
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

// Begins O += P @ V [64, HEAD_DIM]. V is not transposed, because its descriptor sets the sum's
// direction.
template <int MMAS_Q, int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4],
                                      uint32_t (&P_rmem)[MMAS_KV][MMAS_Q][4], uint32_t V_smem) {
  using VTile = Tile<MMAS_KV * MMA_K>;
  wgmma_fence();  // ordinary instructions have written P
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    wgmma<bf16, Major::mn>(O_rmem[0], P_rmem[mma_kv][0], VTile::rows(V_smem, mma_kv), true);
  wgmma_commit();
}

// 65536 registers are 128 per thread for 512 threads, and 168 for 384. Every warpgroup starts with
// these, and setmaxnreg redistributes them.
template <int HEAD_DIM, int CONSUMERS, int BLOCK_KV, bool PING_PONG, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(128 * (1 + CONSUMERS), 1)
void attention(FA_GRID_CONSTANT const TensorMap Q, FA_GRID_CONSTANT const TensorMap K,
               FA_GRID_CONSTANT const TensorMap V,
               bf16* O,  // [batch*heads, len_q, HEAD_DIM]
               int len_q, int len_kv, float scale_log2, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM * sizeof(bf16);
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % 64 == 0, "whole mma tiles, whole panels");

  // Blocks of one head are adjacent, so that the K and V which all of them read come from L2.
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
  const uint32_t K_empty = V_full + 16;
  const uint32_t V_empty = K_empty + 16;
  const auto buffer = [](uint32_t smem, int kv_tile) { return smem + kv_tile % 2 * KV_TILE_BYTES; };
  const auto of = [](uint32_t mbarriers, int kv_tile) { return mbarriers + kv_tile % 2 * 8; };

  if (thread_index() == 0) {
    for (int i = 0; i < 5; ++i) mbarrier_init(Q_full + i * 8, 1);  // one arrival: the producer's
    // One arrival per consumer, by a thread that has waited for its warpgroup's product.
    for (int i = 0; i < 4; ++i) mbarrier_init(K_empty + i * 8, CONSUMERS);
    fence_mbarrier_init();  // makes them visible to the copy engine
  }
  block_sync();  // no thread waits on an mbarrier before it is initialized

  if (warp_index() < 4) {
    setmaxnreg_dec<CONSUMERS == 3 ? 32 : 24>();
    if (warp_index() > 0 || !elect_one()) return;
    // Announces how many bytes will come (a whole tile, even at the end), and issues the load.
    const auto load = [&](uint32_t smem, const TensorMap& map, int first_row, uint32_t bytes,
                          uint32_t full) {
      mbarrier_arrive_expect_tx(full, bytes);
      tma_load_4d(smem, map, 0, first_row, 0, batch_head, full);
    };
    load(Q_smem, Q, q_tile * BLOCK_Q, Q_TILE_BYTES, Q_full);
    for (int kv_tile = 0; kv_tile < num_kv_tiles; ++kv_tile) {
      // Waits until all consumers have read the tile that was here. Before the first tile there was
      // none: on a new mbarrier the previous phase, of parity 1, counts as complete.
      const int parity = kv_tile / 2 % 2 ^ 1;
      mbarrier_wait(of(K_empty, kv_tile), parity);
      load(buffer(K_smem, kv_tile), K, kv_tile * BLOCK_KV, KV_TILE_BYTES, of(K_full, kv_tile));
      mbarrier_wait(of(V_empty, kv_tile), parity);
      load(buffer(V_smem, kv_tile), V, kv_tile * BLOCK_KV, KV_TILE_BYTES, of(V_full, kv_tile));
    }
    return;
  }
  setmaxnreg_inc<CONSUMERS == 3 ? 160 : 240>();

  // Equal in all lanes. The shuffle tells the compiler, so that it may keep Q's descriptors, which
  // depend on it, in uniform registers.
  const int consumer = shfl(warp_index() / 4 - 1, 0);
  const uint32_t Q_warpgroup = Q_smem + consumer * 64 * Tile<BLOCK_Q>::ROW_BYTES;
  float O_rmem[1][HEAD_DIM / MMA_N][4] = {};
  float m[1][2];       // row maximum, up to 8 too small in log2
  float l[1][2] = {};  // running row sum of this lane's columns
  for (auto& row : m) row[0] = row[1] = NEG_INF;
  mbarrier_wait(Q_full, 0);

  float S_rmem[1][BLOCK_KV / MMA_N][4];
  uint32_t P_rmem[BLOCK_KV / MMA_K][1][4];  // wgmma may read it until the wait

  // [anchor: turns]
  // A consumer waits at its own named barrier for its turn, and the previous consumer arrives there
  // when it has issued its products. 128 threads wait and 128 arrive.
  constexpr int FIRST_TURN = 1;  // barrier 0 is block_sync
  const auto take_turn = [&] {
    if (PING_PONG) barrier_sync(FIRST_TURN + consumer, 2 * 128);
  };
  const auto pass_turn = [&] {
    if (PING_PONG) barrier_arrive(FIRST_TURN + (consumer + 1) % CONSUMERS, 2 * 128);
  };
  if (consumer == CONSUMERS - 1 && !breaks.has(fa::NO_FIRST_TURN)) pass_turn();
  // [/anchor: turns]

  // [anchor: steps]
  const auto begin_scores = [&](int kv_tile) {  // S = Q @ K.T
    if (!breaks.has(fa::MISSING_WAIT)) mbarrier_wait(of(K_full, kv_tile), kv_tile / 2 % 2);
    multiply_query_key<HEAD_DIM, BLOCK_Q>(S_rmem, Q_warpgroup, buffer(K_smem, kv_tile));
  };
  const auto begin_output = [&](int kv_tile) {  // O += P @ V
    mbarrier_wait(of(V_full, kv_tile), kv_tile / 2 % 2);
    multiply_weights_value(O_rmem, P_rmem, buffer(V_smem, kv_tile));
  };
  const auto finish_output = [&](int kv_tile) {
    wgmma_wait<0>(O_rmem[0]);
    if (thread_index() % 128 == 0) mbarrier_arrive(of(V_empty, kv_tile));
  };
  const bool masks_tail = !breaks.has(fa::UNMASKED_TAIL);
  const auto softmax = [&](int kv_tile, float(&rescale)[1][2]) {           // S becomes the weights
    if (thread_index() % 128 == 0) mbarrier_arrive(of(K_empty, kv_tile));  // K's buffer is free
    const int keys_left = len_kv - kv_tile * BLOCK_KV;
    if (keys_left < BLOCK_KV && masks_tail) mask_tail(S_rmem, keys_left);
    const bool grew = raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks);
    exponentiate(S_rmem, l, m, scale_log2);
    return grew;
  };
  // [/anchor: steps]

  // [anchor: main_loop]
  float rescale[1][2];
  take_turn();
  begin_scores(0);
  pass_turn();
  wgmma_wait<0>(S_rmem[0]);
  softmax(0, rescale);  // O is still 0, so there is nothing to rescale
  pack(P_rmem, S_rmem);
  for (int kv_tile = 1; kv_tile < num_kv_tiles; ++kv_tile) {
    take_turn();
    begin_scores(kv_tile);
    begin_output(kv_tile - 1);
    pass_turn();

    if (!breaks.has(fa::WAIT_FOR_NEITHER)) wgmma_wait<1>(S_rmem[0]);  // O stays in flight
    const bool grew = softmax(kv_tile, rescale);
    if (breaks.has(fa::EARLY_PACK)) pack(P_rmem, S_rmem);
    if (breaks.has(fa::EARLY_RESCALE) && grew) scale_rows(O_rmem, rescale);
    finish_output(kv_tile - 1);

    // This thread owns O and P again. O has the tiles so far, with the old maximum.
    if (!breaks.has(fa::EARLY_RESCALE) && grew) scale_rows(O_rmem, rescale);
    if (!breaks.has(fa::EARLY_PACK)) pack(P_rmem, S_rmem);
  }
  begin_output(num_kv_tiles - 1);
  finish_output(num_kv_tiles - 1);
  // [/anchor: main_loop]

  for (auto& row : l)
    for (float& sum : row) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
  const int first_query = q_tile * BLOCK_Q + (warp_index() - 4) * MMA_M;
  O += (int64_t{batch_head} * len_q + first_query) * HEAD_DIM;
  store_output(O, O_rmem, l, len_q - first_query);
}

template <int HEAD_DIM, int CONSUMERS = 3, bool PING_PONG = false,
          int BLOCK_KV = CONSUMERS == 3 && HEAD_DIM == 128 ? 80 : 128, class Breaks>
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
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr int SMEM_ROWS = BLOCK_Q + 4 * BLOCK_KV;              // Q, then K and V twice
  constexpr size_t SMEM = SMEM_ROWS * HEAD_DIM * sizeof(bf16) +  // and
                          1024 + 9 * 8;                          // to align it; nine mbarriers
  launch(attention<HEAD_DIM, CONSUMERS, BLOCK_KV, PING_PONG, Breaks>, num_blocks(args, BLOCK_Q),
         128 * (1 + CONSUMERS), SMEM, map(args.q, BLOCK_Q, Swizzle::bytes_128),
         map(args.k, BLOCK_KV, K_swizzle), map(args.v, BLOCK_KV, Swizzle::bytes_128),
         static_cast<bf16*>(args.o.data), static_cast<int>(args.q.shape[2]),
         static_cast<int>(args.k.shape[2]), args.scale * 1.44269504f, breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) {
    const int consumers = args.options[0], ping_pong = args.options[1];
    if (consumers == 2 && ping_pong) return launch_attention<head_dim, 2, true>(args, breaks);
    if (consumers == 2) return launch_attention<head_dim, 2>(args, breaks);
    if (ping_pong) return launch_attention<head_dim, 3, true>(args, breaks);
    launch_attention<head_dim>(args, breaks);
  });
}

}  // namespace FA_BACKEND::ch15
