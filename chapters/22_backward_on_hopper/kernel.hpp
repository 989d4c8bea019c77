#pragma once
// The main kernel: one warp of the producer warpgroup loads tiles and another adds to dQ, and two
// consumer warpgroups multiply, with 64 keys each.

#include "postprocess.hpp"
#include "schedule.hpp"

namespace FA_BACKEND::ch22 {

// Offsets in shared memory. Tiles come first, because they start at multiples of 1024 bytes.
template <int HEAD_DIM>
struct Layout {
  static constexpr int BLOCK_Q = TILE_ELEMENTS / HEAD_DIM;
  static constexpr int Q_STAGES = 2, dO_STAGES = 2, dS_BUFFERS = 2;
  static constexpr uint32_t KV_BYTES = BLOCK_KV * HEAD_DIM * ELEMENT;
  static constexpr uint32_t dS_BYTES = BLOCK_KV * BLOCK_Q * ELEMENT;
  static constexpr uint32_t dQ_HALF_BYTES = TILE_ELEMENTS / 2 * sizeof(float);
  static constexpr uint32_t SUMMANDS_BYTES = BLOCK_Q * 16;  // LSE and D
  static constexpr uint32_t K = 0, V = K + KV_BYTES, Q = V + KV_BYTES;
  static constexpr uint32_t dO = Q + Q_STAGES * TILE_BYTES, dS = dO + dO_STAGES * TILE_BYTES;
  // compute-sanitizer expects that the product with the summands reads twice their bytes. Therefore
  // they are not the last.
  static constexpr uint32_t SUMMANDS = dS + dS_BUFFERS * dS_BYTES;
  static constexpr uint32_t dQ = SUMMANDS + Q_STAGES * SUMMANDS_BYTES;
  static constexpr uint32_t MBARRIERS = dQ + 2 * dQ_HALF_BYTES;
  static constexpr uint32_t BYTES = MBARRIERS + 2 * (Q_STAGES + dO_STAGES) * 8;
};

// A ring of STAGES buffers, where iteration n uses buffer n % STAGES. Consumers wait for `full`,
// the producer waits for `empty`.
template <int STAGES>
struct Ring {
  uint32_t full, empty;  // mbarriers, 8 bytes per buffer

  FA_DEVICE void init(int consumer_warps) const {
    for (int i = 0; i < STAGES; ++i) {
      mbarrier_init(full + i * 8, 1);  // the producer's arrival, and the bytes
      mbarrier_init(empty + i * 8, consumer_warps);
    }
  }
  FA_DEVICE void wait_until_full(int n, FA_SITE) const {
    mbarrier_wait(full_of(n), n / STAGES % 2, line, file);
  }
  FA_DEVICE void wait_until_empty(int n, FA_SITE) const {
    mbarrier_wait(empty + n % STAGES * 8, n / STAGES % 2 ^ 1, line, file);
  }
  FA_DEVICE uint32_t full_of(int n) const { return full + n % STAGES * 8; }
  // Called when this warp's lanes and its wgmma have read the buffer.
  FA_DEVICE void release(int n, FA_SITE) const {
    warp_sync(line, file);
    if (lane_index() == 0) mbarrier_arrive(empty + n % STAGES * 8, line, file);
  }
};

// Named barriers. Each consumer has two for its half of dQ, which its 128 threads store and the
// adding warp reads. Consumer 1 uses the next number.
enum : int { dS_STORED = 1, dQ_STORED = 2, dQ_READ = 4 };
constexpr int dQ_THREADS = 128 + WARP_SIZE;

template <class T, int HEAD_DIM, bool DETERMINISTIC, bool WINDOWED, bool PACKED, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(384, 1)
void backward_tiles(FA_GRID_CONSTANT const TensorMap Q_map, FA_GRID_CONSTANT const TensorMap K_map,
                    FA_GRID_CONSTANT const TensorMap V_map, FA_GRID_CONSTANT const TensorMap dO_map,
                    FA_GRID_CONSTANT const TensorMap summands_map,
                    FA_GRID_CONSTANT const TensorMap dK_map,
                    FA_GRID_CONSTANT const TensorMap dV_map, const Params whole,
                    const Order whole_order, Breaks breaks) {
  using L = Layout<HEAD_DIM>;
  constexpr int BLOCK_Q = L::BLOCK_Q, MMAS_Q = BLOCK_Q / MMA_N, MMAS_D = HEAD_DIM / MMA_N;
  using Scores = float[1][MMAS_Q][4];
  using Operand = uint32_t[MMAS_Q / 2][1][4];

  const uint32_t smem = dynamic_smem(), K_smem = smem + L::K, V_smem = smem + L::V;
  const Ring<L::Q_STAGES> Q{smem + L::MBARRIERS, smem + L::MBARRIERS + L::Q_STAGES * 8};
  const Ring<L::dO_STAGES> dO{Q.empty + L::Q_STAGES * 8,
                              Q.empty + (L::Q_STAGES + L::dO_STAGES) * 8};
  const auto Q_smem = [&](int n) { return smem + L::Q + n % L::Q_STAGES * TILE_BYTES; };
  const auto dO_smem = [&](int n) { return smem + L::dO + n % L::dO_STAGES * TILE_BYTES; };
  const auto summands_smem = [&](int n) {
    return smem + L::SUMMANDS + n % L::Q_STAGES * L::SUMMANDS_BYTES;
  };

  Work work = Work::of_block(whole, whole_order);
  const Sequence<PACKED, BLOCK_Q> sequence(whole, whole_order, work);
  const Params& p = sequence.p;
  const Order& order = sequence.order;
  if (PACKED && work.kv_tile >= p.kv_tiles) return;  // the number of no tile
  work.find_queries<BLOCK_Q, WINDOWED>(p, order);
  const int count = work.count, first_key = work.kv_tile * BLOCK_KV;
  if (thread_index() == 0) {
    constexpr int CONSUMER_WARPS = 8;
    Q.init(CONSUMER_WARPS);
    dO.init(CONSUMER_WARPS);
    fence_mbarrier_init();
  }
  block_sync();  // all mbarriers are initialized before a thread waits for one

  if (warp_index() < 4) {
    setmaxnreg_dec<24>();
    if (warp_index() == 0 && elect_one()) {
      Place at(work, p);
      for (int n = 0; n < count; ++n, at.advance(work)) {
        const int row = sequence.q_start + at.q_tile * BLOCK_Q;
        const int tile = sequence.tile_index(work, at.head, at.q_tile);
        const uint32_t bytes = TILE_BYTES + (n == 0 ? L::KV_BYTES : 0);
        // K is loaded with the first Q, V with the first dO.
        Q.wait_until_empty(n);
        mbarrier_arrive_expect_tx(Q.full_of(n), bytes + L::SUMMANDS_BYTES);
        if (n == 0)
          tma_load_5d(K_smem, K_map, 0, sequence.kv_start + first_key, 0, work.kv_head, work.batch,
                      Q.full_of(n));
        tma_load_5d(Q_smem(n), Q_map, 0, row, 0, at.head, work.batch, Q.full_of(n));
        tma_load_2d(summands_smem(n), summands_map, 0, tile * (BLOCK_Q / 64), Q.full_of(n));
        dO.wait_until_empty(n);
        mbarrier_arrive_expect_tx(dO.full_of(n), bytes);
        if (n == 0)
          tma_load_5d(V_smem, V_map, 0, sequence.kv_start + first_key, 0, work.kv_head, work.batch,
                      dO.full_of(n));
        tma_load_5d(dO_smem(n), dO_map, 0, row, 0, at.head, work.batch, dO.full_of(n));
      }
    } else if (warp_index() == 1) {
      // [anchor: add_dQ]
      Place at(work, p);
      Turn<DETERMINISTIC, BLOCK_Q> turn{p, work, order};
      for (int n = 0; n < count; ++n, at.advance(work)) {
        const int tile = sequence.tile_index(work, at.head, at.q_tile);
        float* const dQ_sum = p.dQ_sum + int64_t{tile} * TILE_ELEMENTS;
        if (lane_index() == 0) turn.await(tile, at.q_tile, breaks);
        for (int half = 0; half < 2; ++half) {
          const auto add = [&] {
            if (lane_index() > 0) return;
            bulk_reduce_add(dQ_sum + half * TILE_ELEMENTS / 2,
                            smem + L::dQ + half * L::dQ_HALF_BYTES, L::dQ_HALF_BYTES);
            tma_store_commit();
          };
          if (breaks.has(fa::REDUCE_BEFORE_LANDED)) add();
          warp_sync();
          barrier_sync(dQ_STORED + half, dQ_THREADS);
          if (!breaks.has(fa::REDUCE_BEFORE_LANDED)) add();
        }
        if (lane_index() == 0) turn.pass(tile, at.q_tile);
        if (n + 1 == count) break;
        // Afterwards the copy engine has read a half, so its consumer may store the next one there.
        if (lane_index() == 0 && !breaks.has(fa::DQ_OVERWRITTEN)) tma_store_wait_read<1>();
        warp_sync();
        barrier_arrive(dQ_READ + 0, dQ_THREADS);
        if (lane_index() == 0 && !breaks.has(fa::DQ_OVERWRITTEN)) tma_store_wait_read<0>();
        warp_sync();
        barrier_arrive(dQ_READ + 1, dQ_THREADS);
      }
      if (lane_index() == 0) turn.end();
      // [/anchor: add_dQ]
    }
  } else {
    setmaxnreg_inc<240>();
    // Equal in all lanes. The shuffle tells the compiler, so that descriptors may stay in uniform
    // registers.
    const int consumer = shfl(warp_index() / 4 - 1, 0), warp = warp_index() % 4;
    const uint32_t rows = consumer * WARPGROUP_KEYS * Tile<BLOCK_KV>::ROW_BYTES;
    const uint32_t K_rows = K_smem + rows, V_rows = V_smem + rows;
    const uint32_t panel = consumer * Tile<BLOCK_KV>::PANEL_BYTES;
    float dK_rmem[1][MMAS_D][4] = {}, dV_rmem[1][MMAS_D][4] = {};

    const auto mask = [&](Scores& S_rmem, int q_tile) {
      const int last_key = first_key + BLOCK_KV - 1;
      const int key = first_key + consumer * WARPGROUP_KEYS + warp * MMA_M;
      if (last_key >= p.len_kv || last_key > q_tile * BLOCK_Q + p.diagonal)
        ch10::mask_scores(S_rmem, p, key, q_tile * BLOCK_Q);
      if constexpr (WINDOWED)
        if (first_key < (q_tile + 1) * BLOCK_Q - 1 + order.window_start)
          mask_window_start(S_rmem, key, q_tile * BLOCK_Q + order.window_start);
    };
    // After the barrier, dS of both consumers is stored. There are two buffers, because the other
    // consumer may still multiply by the previous one.
    const auto exchange_dS = [&](int n, const Operand& dS_rmem) {
      const uint32_t dS_smem = smem + L::dS + n % L::dS_BUFFERS * L::dS_BYTES;
      store_operand<BLOCK_KV>(dS_smem, consumer * WARPGROUP_KEYS + warp * MMA_M, dS_rmem);
      if (!breaks.has(fa::DS_WITHOUT_FENCE)) fence_proxy_async();  // wgmma reads dS
      barrier_sync(dS_STORED, 2 * 128);
      return dS_smem;
    };
    // Each consumer multiplies half of dQ: 64 of 128 columns, or 64 of 128 queries.
    const auto begin_dQ = [&](float(&dQ_rmem)[1][8][4], uint32_t dS_smem) {
      multiply_keys<T>(dQ_rmem, dS_smem + (HEAD_DIM == 64 ? panel : 0),
                       K_smem + (HEAD_DIM == 64 ? 0 : panel), breaks);
    };
    // Stored as four registers of a thread, then those of the next thread, so that there is no bank
    // conflict and the half is contiguous.
    const auto hand_over_dQ = [&](int n, const float(&dQ_rmem)[1][8][4]) {
      if (n > 0) barrier_sync(dQ_READ + consumer, dQ_THREADS);
      const uint32_t to = smem + L::dQ + consumer * L::dQ_HALF_BYTES + thread_index() % 128 * 16;
      for (int mma_d = 0; mma_d < 8; ++mma_d) {
        const float* c = dQ_rmem[0][mma_d];
        store_shared<Float4>(to + mma_d * 128 * 16, {c[0], c[1], c[2], c[3]});
      }
      fence_proxy_async();  // the copy engine reads it
      barrier_arrive(dQ_STORED + consumer, dQ_THREADS);
    };

    if (count > 0) {
      Place at(work, p);
      Ones ones;
      Operand P_rmem;
      Scores S_rmem, dP_rmem;
      // [anchor: main_loop]
      FA_NO_UNROLL
      for (int n = 0; n < count; ++n, at.advance(work)) {
        Q.wait_until_full(n);  // S.T = K @ Q.T - LSE / scale
        multiply_rows<T, HEAD_DIM>(S_rmem, K_rows, Q_smem(n), ones.LSE, summands_smem(n));
        dO.wait_until_full(n);  // dP.T = V @ dO.T - D
        multiply_rows<T, HEAD_DIM>(dP_rmem, V_rows, dO_smem(n), ones.D, summands_smem(n));
        wgmma_wait<1>(S_rmem[0]);
        mask(S_rmem, at.q_tile);
        exponentiate<T>(P_rmem, S_rmem, p.scale_log2);  // P = exp(scale S), in S's registers too
        Operand dS_rmem;
        if constexpr (HEAD_DIM == 64) copy(dS_rmem, P_rmem);
        multiply_weights<T>(dV_rmem, P_rmem, dO_smem(n));  // dV += P.T @ dO
        wgmma_wait<1>(dP_rmem[0]);
        // dS = P o dP. With scores of 128 queries, no registers are left for P in fp32.
        if constexpr (HEAD_DIM == 64)
          differentiate_softmax<T>(dS_rmem, dP_rmem);
        else
          differentiate_softmax<T>(dS_rmem, S_rmem, dP_rmem);

        const uint32_t dS_smem = exchange_dS(n, dS_rmem);
        float dQ_rmem[1][8][4];
        begin_dQ(dQ_rmem, dS_smem);                        // dQ = dS @ K
        multiply_weights<T>(dK_rmem, dS_rmem, Q_smem(n));  // dK += dS.T @ Q
        wgmma_wait<1>(dV_rmem[0], dQ_rmem[0]);
        dO.release(n);
        hand_over_dQ(n, dQ_rmem);  // while dK is computed
        wgmma_wait<0>(dK_rmem[0]);
        Q.release(n);
      }
      // [/anchor: main_loop]
    }

    // Both consumers have read all of K and V, so that each may overwrite its half of them.
    barrier_sync(dS_STORED, 2 * 128);
    const auto store = [&](const TensorMap& map, const ch10::Tensor& tensor, uint32_t to,
                           float(&C_rmem)[1][MMAS_D][4], float factor) {
      uint32_t packed[MMAS_D / 2][1][4];
      for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
        for (int half = 0; half < 2; ++half) {
          const float* c = &C_rmem[0][mma_d][half * 2];
          packed[mma_d / 2][0][mma_d % 2 * 2 + half] = pack<T>(c[0] * factor, c[1] * factor);
        }
      store_operand<WARPGROUP_KEYS>(to, warp * MMA_M, packed);
      fence_proxy_async();
      barrier_sync(dQ_READ + consumer, 128);
      const int own_key = first_key + consumer * WARPGROUP_KEYS;
      if (PACKED && p.len_kv - own_key < WARPGROUP_KEYS) {
        // A box would reach into the next sequence, so the threads copy the rows, in chunks.
        constexpr int ROW_CHUNKS = HEAD_DIM / 8;
        for (int i = thread_index() % 128; i < (p.len_kv - own_key) * ROW_CHUNKS; i += 128) {
          const int row = i / ROW_CHUNKS, chunk = i % ROW_CHUNKS;
          const auto value =
              load_shared<ch10::Chunk>(to + chunk / 8 * Tile<WARPGROUP_KEYS>::PANEL_BYTES +
                                       row * 128 + (chunk % 8 ^ row % 8) * 16);
          char* const head = tensor.data + work.kv_head * tensor.head;
          const int64_t at = int64_t{sequence.kv_start + own_key + row} * tensor.row + chunk * 16;
          store_global(reinterpret_cast<ch10::Chunk*>(head + at), value);
        }
        return;
      }
      if (thread_index() % 128 > 0) return;
      tma_store_5d(map, 0, sequence.kv_start + own_key, 0, work.kv_head, work.batch, to);
      tma_store_commit();
    };
    store(dV_map, p.dV, V_smem + consumer * L::KV_BYTES / 2, dV_rmem, 1.0f);
    store(dK_map, p.dK, K_smem + consumer * L::KV_BYTES / 2, dK_rmem, p.scale);
    if (thread_index() % 128 == 0) tma_store_wait_read<0>();
  }
}

}  // namespace FA_BACKEND::ch22
