#pragma once
// Chapter 21: persistent blocks.
//
// One block per multiprocessor stays and takes one tile of queries after another from a counter.
// Q of the next tile loads, and O of the last one is stored by the copy engine, while the tensor
// cores work on the current tile. The rest is chapter 16.
//
//   ./learn diff 21       ch21_persistent_blocks --shape 2,3,512,512,128 --profile

#include "chapters/21_persistent_blocks/params.hpp"
#include "chapters/21_persistent_blocks/store.hpp"
#include "common/kernels/wide_epilogue.hpp"

namespace FA_BACKEND::ch21 {

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

// Before the kernel, no tile is claimed yet but each block's first.
FA_KERNEL FA_LAUNCH_BOUNDS(32, 1)
void reset(int* claimed) {
  if (thread_index() == 0) store_global(claimed, 0);
}

// In an exact tile, m stays until a weight would exceed 2^80. Then it is set 2^40 above the row's
// maximum, because the exponents of fp32 and bf16 have room on both sides of 0.
constexpr float MAX_GROWTH = 80.0f, ROOM = 40.0f;

template <int HEAD_DIM, int CONSUMERS, int BLOCK_KV, int STAGES, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(128 * (1 + CONSUMERS), 1)
void attention(FA_GRID_CONSTANT const Params params, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * HEAD_DIM * sizeof(bf16);
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM * sizeof(bf16);
  static_assert(BLOCK_KV % MMA_K == 0 && HEAD_DIM % 64 == 0, "whole mma tiles, whole panels");

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + 2 * Q_TILE_BYTES;
  const uint32_t V_smem = K_smem + STAGES * KV_TILE_BYTES;
  const uint32_t tickets = V_smem + STAGES * KV_TILE_BYTES;  // one for each buffer of Q
  const uint32_t Q_full = tickets + 2 * TICKET_BYTES;  // mbarriers, 8 bytes each, one per buffer
  const uint32_t K_full = Q_full + 16;
  const uint32_t V_full = K_full + STAGES * 8;
  const uint32_t all_landed = V_full + STAGES * 8;
  const uint32_t Q_empty = all_landed + 8;
  const uint32_t K_empty = Q_empty + 16;
  const uint32_t V_empty = K_empty + STAGES * 8;
  const uint32_t overflows = V_empty + STAGES * 8;  // a word per warp

  if (thread_index() == 0) {
    // One arrival, the producer's; and one per warp that computes, because it may need K again
    // after the product.
    for (int i = 0; i < 3 + 2 * STAGES; ++i) mbarrier_init(Q_full + i * 8, 1);
    for (int i = 0; i < 2; ++i) mbarrier_init(Q_empty + i * 8, 128 * CONSUMERS);
    for (int i = 0; i < 2 * STAGES; ++i) mbarrier_init(K_empty + i * 8, 4 * CONSUMERS);
    fence_mbarrier_init();  // makes them visible to the copy engine
    for (int i = 0; i < 4 * CONSUMERS; ++i) store_shared<int>(overflows + i * 4, -1);  // none
  }
  block_sync();  // no thread waits on an mbarrier before it is initialized
  // The buffer, mbarrier and phase of the n-th tile of keys. `used` has a bit for each buffer,
  // which is the parity of the phase that its next tile fills. Only `used` passes from one Q tile
  // to the next.
  const auto buffer = [](uint32_t smem, int n) { return smem + n % STAGES * KV_TILE_BYTES; };
  const auto of = [](uint32_t mbarriers, int n) { return mbarriers + n % STAGES * 8; };
  const auto of_q = [](uint32_t mbarriers, int i) { return mbarriers + i % 2 * 8; };
  const auto phase = [](uint32_t used, int n) { return (used >> n % STAGES ^ n / STAGES) & 1; };
  const auto use = [&, breaks](uint32_t used, int count) {
    if (breaks.has(fa::RESTARTED_PHASES)) return 0u;
    for (int i = 0; i < STAGES; ++i) used ^= (count + STAGES - 1 - i) / STAGES % 2 << i;
    return used;
  };

  if (warp_index() < 4) {
    setmaxnreg_dec<CONSUMERS == 3 ? 32 : 40>();
    if (warp_index() > 0) return;
    // Announces how many bytes will come (a whole tile, even at the end), and issues the load.
    const auto ask = [&](uint32_t smem, const TensorMap& map, int first_row, int head, int batch,
                         uint32_t bytes, uint32_t full) {
      if (!elect_one()) return;
      mbarrier_arrive_expect_tx(full, bytes);
      tma_load_5d(smem, map, 0, first_row, 0, head, batch, full);
    };
    // Rows after a packed sequence's last belong to the next sequence and become zeros. V's have
    // weight 0, but 0 times Inf or NaN is NaN; with Q's, a warp might recompute a tile.
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
      FA_NO_UNROLL
      for (int panel = 0; panel < HEAD_DIM / 64; ++panel) FA_NO_UNROLL
      for (uint32_t byte = own_rows * Rows::ROW_BYTES + lane_index() * 4; byte < Rows::PANEL_BYTES;
           byte += Rows::ROW_BYTES)
        store_shared<uint32_t>(smem + panel * Rows::PANEL_BYTES + byte, 0);
      fence_proxy_async();  // wgmma sees the zeros
      warp_sync();          // all lanes have stored their zeros
      if (elect_one()) mbarrier_arrive(full);
    };
    constexpr std::integral_constant<int, BLOCK_Q> Q_rows;
    constexpr std::integral_constant<int, BLOCK_KV> KV_rows;
    uint32_t used = 0;
    int index = block_index();
    // [anchor: producer]
    for (int i = 0;; ++i) {
      const bool last = index >= params.num_q_tiles;
      const QTile work = q_tile_of<BLOCK_Q>(params, last ? 0 : index, breaks);
      const int block_row = work.first_row, kv_head = work.head / params.group;
      const Tiles<BLOCK_KV> tiles = tiles_of<BLOCK_KV>(work, block_row, BLOCK_Q);
      // A tile of queries that see no key, or past the end of its sequence, needs no loads.
      const int count = !last && block_row < work.len_q && tiles.count() > 0 ? tiles.count() : 0;
      if (!breaks.has(fa::Q_OVER_Q)) mbarrier_wait(of_q(Q_empty, i), i / 2 % 2 ^ 1);
      if (elect_one()) write_ticket(tickets + i % 2 * TICKET_BYTES, index, work);
      if (count > 0) {
        load(Q_rows, Q_smem + i % 2 * Q_TILE_BYTES, params.Q_map, work.q_start + block_row,
             work.head, work.batch, work.len_q - block_row, of_q(Q_full, i));
      } else if (elect_one()) {
        mbarrier_arrive(of_q(Q_full, i));
      }
      if (last) return;
      for (int n = 0; n < count; ++n) {
        const int key = key_tile(params, tiles, n) * BLOCK_KV, row = work.kv_start + key;
        // Waits until all warps have read the tile that was here. Before the first tile there was
        // none: on a new mbarrier the previous phase, of parity 1, counts as complete.
        const int parity = phase(used, n) ^ 1;
        mbarrier_wait(of(K_empty, n), parity);
        ask(buffer(K_smem, n), params.K_map, row, kv_head, work.batch, KV_TILE_BYTES,
            of(K_full, n));
        mbarrier_wait(of(V_empty, n), parity);
        load(KV_rows, buffer(V_smem, n), params.V_map, row, kv_head, work.batch,
             work.mask.len_kv - key, of(V_full, n));
      }
      used = use(used, count);
      // Claimed only now, when all loads of this tile are issued, because a block that claims
      // earlier holds a tile while other blocks have nothing to do.
      if (lane_index() == 0) index = grid_size().x + atomic_add(params.claimed, 1);
      index = shfl(index, 0);
    }
    // [/anchor: producer]
  }
  setmaxnreg_inc<CONSUMERS == 3 ? 160 : 232>();

  // Equal in all lanes. The shuffle tells the compiler, so that it may keep values that depend on
  // it in uniform registers.
  const int consumer = shfl(warp_index() / 4 - 1, 0);
  const float scale_log2 = params.scale * 1.44269504f;  // e^x = 2^(x log2 e)
  const auto release = [&](uint32_t empty) {
    if (lane_index() == 0) mbarrier_arrive(empty);
  };
  // Two consumers take turns, as in chapter 15, so that one multiplies, the other exponentiates.
  constexpr int FIRST_TURN = 1, VOTE = FIRST_TURN + CONSUMERS;  // barrier 0 is block_sync
  const auto take_turn = [&] {
    if (CONSUMERS == 2) barrier_sync(FIRST_TURN + consumer, 2 * 128);
  };
  const auto pass_turn = [&] {
    if (CONSUMERS == 2) barrier_arrive(FIRST_TURN + (consumer + 1) % CONSUMERS, 2 * 128);
  };
  if (consumer == CONSUMERS - 1) pass_turn();
  uint32_t used = 0;
  // Where the last tile of queries is noted in which rows of this warp overflowed.
  const uint32_t overflowed = overflows + (warp_index() - 4) * 4;
  for (int i = 0;; ++i) {
    const uint32_t ticket = tickets + i % 2 * TICKET_BYTES;
    const uint32_t Q_warpgroup =
        Q_smem + shfl(i % 2, 0) * Q_TILE_BYTES + consumer * 64 * Tile<BLOCK_Q>::ROW_BYTES;
    if (!breaks.has(fa::EARLY_INDEX)) mbarrier_wait(of_q(Q_full, i), i / 2 % 2);
    const int index = read_ticket(ticket, 0);
    const QTile work = read_ticket(ticket, params);
    if (breaks.has(fa::EARLY_INDEX)) mbarrier_wait(of_q(Q_full, i), i / 2 % 2);
    // [anchor: release_q]
    // The previous tile's O is in the place of its Q until the copy engine has read it.
    if (i > 0) {
      if (!breaks.has(fa::NO_STORE_WAIT) && lane_index() == 0) tma_store_wait_read<0>();
      mbarrier_arrive(of_q(Q_empty, i + 1));  // by each lane, when it has read the ticket and O
    }
    // [/anchor: release_q]
    if (index >= params.num_q_tiles) break;
    const int block_row = work.first_row;
    if (block_row >= work.len_q) continue;  // tile of a longer sequence
    const Tiles<BLOCK_KV> tiles = tiles_of<BLOCK_KV>(work, block_row, BLOCK_Q);
    const int first_row = block_row + consumer * 64;  // first query of the warpgroup
    // These rows need the block's first `end` tiles, and see the tiles between the other two whole.
    const Tiles<BLOCK_KV> mine = tiles_of<BLOCK_KV>(work, first_row, 64);
    const int end = first_row < work.len_q ? mine.end - tiles.begin : 0;
    const bool last_first = sees_all(params);
    const int clear_begin = last_first ? mine.end - mine.clear_end : mine.clear_begin - tiles.begin;
    const int clear_end = last_first ? end : mine.clear_end - tiles.begin;

    float O_rmem[1][HEAD_DIM / MMA_N][4] = {};
    float m[1][2] = {{NEG_INF, NEG_INF}};  // what is subtracted: at most the row's maximum
    float l[1][2] = {};                    // running row sum of this lane's columns
    float S_rmem[1][BLOCK_KV / MMA_N][4];
    uint32_t P_rmem[BLOCK_KV / MMA_K][1][4];  // wgmma may read it until the wait
    bool raised = false;                      // weights became too large

    const auto begin_scores = [&, breaks](int n) {  // S = Q @ K.T
      if (!breaks.has(fa::MISSING_WAIT)) mbarrier_wait(of(K_full, n), phase(used, n));
      take_turn();
      multiply_query_key<HEAD_DIM, BLOCK_Q>(S_rmem, Q_warpgroup, buffer(K_smem, n));
    };
    const auto begin_output = [&](int n) {  // O += P @ V
      mbarrier_wait(of(V_full, n), phase(used, n));
      multiply_weights_value(O_rmem, P_rmem, buffer(V_smem, n));
    };
    const auto finish_output = [&](int n) {
      wgmma_wait<0>(O_rmem[0]);
      release(of(V_empty, n));
    };

    // Turns the finished S into weights, with a maximum that is raised first if needed. The tile is
    // exact.
    const auto softmax = [&, breaks](int n, bool edge, float growth, float room,
                                     float(&rescale)[1][2]) {
      release(of(K_empty, n));
      if (edge) {
        const QTile now = read_ticket(ticket, params);
        const auto tiles = tiles_of<BLOCK_KV>(now, now.first_row, BLOCK_Q);
        const bool last_first = sees_all(params);  // then only tile 0 is an edge, the last one
        mask_scores(S_rmem, now.mask, now.first_row + opaque(warp_index() - 4) * 16,
                    (tiles.begin + n + (last_first ? tiles.count() - 1 : 0)) * BLOCK_KV);
      }
      const bool grew = raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks, growth, room);
      exponentiate(S_rmem, l[0], m[0], scale_log2);
      return grew;
    };
    const auto step_exact = [&](int n, bool edge) {
      begin_scores(n);
      begin_output(n - 1);
      pass_turn();
      wgmma_wait<1>(S_rmem[0]);  // O stays in flight
      float rescale[1][2];
      const bool grew = softmax(n, edge, MAX_GROWTH, ROOM, rescale);
      finish_output(n - 1);
      if (grew) scale_rows(O_rmem, rescale);
      pack(P_rmem, S_rmem);
    };
    const auto step_on_demand = [&, breaks](int n) {
      begin_scores(n);
      begin_output(n - 1);
      pass_turn();
      wgmma_wait<1>(S_rmem[0]);
      float sum[2] = {};
      exponentiate(S_rmem, sum, m[0], scale_log2);  // with the current maximum
      finish_output(n - 1);
      // See chapter 16, where the limit is 2^50. Written so that Inf and NaN count as too large.
      const bool too_large = !(sum[0] + sum[1] < 0x1p80f) || !is_foldable(m[0][0], scale_log2) ||
                             !is_foldable(m[0][1], scale_log2);
      if (warp_any(too_large)) {
        scores_again<HEAD_DIM, BLOCK_Q>(
            S_rmem, Q_warpgroup + opaque(warp_index() % 4 * 16) * Tile<BLOCK_Q>::ROW_BYTES,
            buffer(K_smem, n));
        float rescale[1][2];
        if (raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks, 8.0f, ROOM))
          scale_rows(O_rmem, rescale);
        sum[0] = sum[1] = 0.0f;
        exponentiate(S_rmem, sum, m[0], scale_log2);
        raised |= n > 1;
        warp_sync();  // all lanes have read K
      }
      release(of(K_empty, n));  // not needed any more
      for (int half = 0; half < 2; ++half) l[0][half] += sum[half];
      pack(P_rmem, S_rmem);
    };
    const auto skip = [&](int n) {  // other warpgroups need it
      take_turn();
      pass_turn();
      if (lane_index() == 0) {
        mbarrier_wait(of(K_full, n), phase(used, n));
        mbarrier_arrive(of(K_empty, n));
        mbarrier_wait(of(V_full, n), phase(used, n));
        mbarrier_arrive(of(V_empty, n));
      }
      warp_sync();  // no lane waits for the next phase before this one is complete
    };

    int n = 0;
    if (n < end) {  // the first tile: there is no maximum yet, and O is still 0
      begin_scores(n);
      pass_turn();
      wgmma_wait<0>(S_rmem[0]);
      float rescale[1][2];
      const bool edge = clear_begin > 0 || clear_end < 1;
      softmax(n, edge, 8.0f, 0.0f, rescale);
      // [anchor: room]
      // If a lane's weights nearly vanish compared with the row's largest, a later score may be far
      // above that one. Then m is raised at once, and the weights become smaller.
      if (!edge && warp_any(l[0][0] < 0x1p-4f || l[0][1] < 0x1p-4f)) {
        for (int half = 0; half < 2; ++half) {
          const float raised_m = m[0][half] + ROOM / scale_log2;
          if (!is_foldable(raised_m, scale_log2)) continue;
          const float lower = exp2((m[0][half] - raised_m) * scale_log2);
          for (auto& mma : S_rmem[0]) mma[half * 2] *= lower, mma[half * 2 + 1] *= lower;
          l[0][half] *= lower;
          m[0][half] = raised_m;
        }
      }
      // [/anchor: room]
      pack(P_rmem, S_rmem);
      ++n;
      // [anchor: sharp]
      // The other tiles come in groups, as in chapter 16. After a group with weights that became
      // too large, all groups are exact.
      bool exact = false;
      while (n < end) {
        const bool edge = n < clear_begin || n >= clear_end;
        const int next = edge ? (n < clear_begin ? clear_begin : end) : n < 4 ? 4 : (n / 8 + 1) * 8;
        const int most = edge ? end : clear_end;
        const int round_end = next < most ? next : most;
        if (!edge && !exact) exact = barrier_red_or(VOTE + consumer, 128, raised);
        if (edge || exact) {
          for (; n < round_end; ++n) step_exact(n, edge);
        } else {
          for (; n < round_end; ++n) step_on_demand(n);
        }
      }
      // [/anchor: sharp]
      begin_output(n - 1);
      finish_output(n - 1);
    }
    // All of this again, because the loop has no registers to keep it.
    const QTile done = read_ticket(ticket, params);
    const Tiles<BLOCK_KV> needed = tiles_of<BLOCK_KV>(done, done.first_row, BLOCK_Q);
    const int count = needed.count() > 0 ? needed.count() : 0;
    for (; n < count; ++n) skip(n);
    used = use(used, count);

    for (float& sum : l[0]) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
    const int done_row = done.first_row + opaque(warp_index() - 4) * 16;
    const int rows = done.len_q - done_row;
    bool finite = true;
    for (int half = 0; half < 2; ++half)
      finite &= is_finite(O_rmem, half) || half * 8 + lane_index() / 4 >= rows;
    if (warp_any(!finite)) {  // chapter 16's second try, after all tiles
      // A list of these tiles, where each links to the previous one, in O, which it will write
      // again.
      const int index = read_ticket(ticket, 0);
      if (lane_index() == 0) {
        store_global(
            reinterpret_cast<int*>(params.O.at(done.batch, done.head, done.q_start + done_row)),
            load_shared<int>(overflowed));
        store_shared<int>(overflowed, index);
      }
    } else {
      if (std::is_empty_v<Breaks> && params.sinks != nullptr)
        add_sink(O_rmem, m, l, sink_of(params, done.head), scale_log2);
      store_async(params, done, done_row,
                  Q_warpgroup + warp_index() % 4 * 16 * Tile<BLOCK_Q>::ROW_BYTES,
                  Tile<BLOCK_Q>::PANEL_BYTES, O_rmem, m, l, breaks);
    }
  }

  // Lane 0 has written the list, so it reads it.
  const bool leads = lane_index() == 0;
  int index = shfl(leads ? load_shared<int>(overflowed) : 0, 0);
  while (index >= 0) {
    const QTile work = q_tile_of<BLOCK_Q>(params, index, breaks);
    const int warp_row = work.first_row + (warp_index() - 4) * 16;
    const int64_t row = work.q_start + warp_row;
    char* O = params.O.at(work.batch, work.head, 0) + row * params.O.row;
    index = shfl(leads ? load_global(reinterpret_cast<const int*>(O)) : 0, 0);
    float O_rmem[1][HEAD_DIM / MMA_N][4], m[1][2], l[1][2];
    rows_again(O_rmem, m, l, params, work, warp_row, scale_log2, breaks);
    for (float& sum : l[0]) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
    if (std::is_empty_v<Breaks> && params.sinks != nullptr)
      add_sink(O_rmem, m, l, sink_of(params, work.head), scale_log2);
    float* LSE = params.LSE;
    if (LSE != nullptr)
      LSE += (int64_t{work.batch} * params.heads + work.head) * params.len_q + row;
    store_output(O, LSE, O_rmem, m, l, params.scale, work.len_q - warp_row, params.O.row);
  }
}

template <int HEAD_DIM, int CONSUMERS, int BLOCK_KV, int STAGES, class Breaks>
void launch_blocks(const fa::ForwardArgs& args, int blocks, Breaks breaks) {
  constexpr int BLOCK_Q = 64 * CONSUMERS;
  constexpr int SMEM_ROWS = 2 * (BLOCK_Q + STAGES * BLOCK_KV);  // Q twice, K and V, then mbarriers
  constexpr size_t SMEM =
      SMEM_ROWS * HEAD_DIM * sizeof(bf16) + 1024 + 2 * TICKET_BYTES + (5 + 4 * STAGES) * 8 + 12 * 4;
  const Params params = params_of(args, BLOCK_Q, BLOCK_KV, blocks);
  launch(reset, 1, 32, 0, params.claimed);
  launch(attention<HEAD_DIM, CONSUMERS, BLOCK_KV, STAGES, Breaks>,
         std::min(blocks, params.num_q_tiles), 128 * (1 + CONSUMERS), SMEM, params, breaks);
}

template <int HEAD_DIM, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  const int asked_consumers = args.options[0], asked_blocks = args.options[1];
  if (asked_consumers == 1) throw fa::InputError("--consumers 1: this chapter takes 2 or 3");
  const int blocks = asked_blocks != 0 ? asked_blocks : multiprocessors();
  const int consumers = asked_consumers != 0 ? asked_consumers : consumers_of(args, blocks);
  if (consumers == 2) return launch_blocks<HEAD_DIM, 2, 128, 2>(args, blocks, breaks);
  // The largest tiles without spills. In short rows, four buffers of K and of V let a warpgroup
  // begin the next tile of queries while another has not finished the last. A mask cuts smaller
  // tiles less.
  const int keys = args.k.shape[2];
  if constexpr (HEAD_DIM == 128) {
    if (keys >= 4096) return launch_blocks<HEAD_DIM, 3, 80, 2>(args, blocks, breaks);
    launch_blocks<HEAD_DIM, 3, 64, 4>(args, blocks, breaks);
  } else {
    if (keys >= 2048) return launch_blocks<HEAD_DIM, 3, 128, 2>(args, blocks, breaks);
    if (args.window_right >= 0 || args.window_left >= 0)
      return launch_blocks<HEAD_DIM, 3, 64, 8>(args, blocks, breaks);
    launch_blocks<HEAD_DIM, 3, 128, 4>(args, blocks, breaks);
  }
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto which) { launch_attention<head_dim>(args, which); });
}

}  // namespace FA_BACKEND::ch21
