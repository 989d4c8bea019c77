#pragma once
// Chapter 23, FP8: both products in 8 bits with wgmma.
//
// Chapter 16's kernel in the persistent blocks of chapter 21, changed for three reasons. First, the
// operands are e4m3, which wgmma multiplies at twice the rate. It takes them K-major only.
// Therefore V has been transposed before, and its keys are in an order in which P can stay in its
// registers. Second, weights must fit e4m3, and the row sums show when one may not. Third, the
// tensor core does not sum in fp32, so O is added up in registers after every second tile.
//
//   ch23_fp8 --shape 1,1,128,512,128 --profile
//
// For sm_90a.

#include "chapters/23_fp8/quantize.hpp"
#include "chapters/23_fp8/softmax.hpp"
#include "chapters/23_fp8/store.hpp"

namespace FA_BACKEND::ch23 {

// ROWS rows of WIDTH bytes in shared memory, as panels of SPAN columns that are stored one after
// another. Each row of a panel has SPAN bytes and is swizzled. A wgmma multiplies 32 columns.
template <int ROWS, int WIDTH>
struct Tile8 {
  static constexpr int SPAN = WIDTH % 128 == 0 ? 128 : WIDTH % 64 == 0 ? 64 : 32;
  static constexpr Swizzle SWIZZLE = SPAN == 128  ? Swizzle::bytes_128
                                     : SPAN == 64 ? Swizzle::bytes_64
                                                  : Swizzle::bytes_32;
  static constexpr uint32_t PANEL_BYTES = ROWS * SPAN, BYTES = ROWS * WIDTH;
  static constexpr int PANELS = WIDTH / SPAN, PANEL_MMAS = SPAN / MMA_K8;

  FA_DEVICE static uint64_t columns(uint32_t smem, int mma) {
    return advance_descriptor(wgmma_descriptor(smem, 16, 8 * SPAN, SWIZZLE),
                              mma / PANEL_MMAS * PANEL_BYTES + mma % PANEL_MMAS * MMA_K8);
  }
};

// Starts S = Q @ K.T   [64, BLOCK_KV]. The first wgmma sets S, the others add to it.
template <int HEAD_DIM, int MMAS_KV>
FA_DEVICE void multiply_query_key(float (&S_rmem)[1][MMAS_KV][4],
                                  uint32_t (&Q_rmem)[HEAD_DIM / MMA_K8][4], uint32_t K_smem) {
  wgmma_fence();
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K8; ++mma_d)
    wgmma<e4m3>(S_rmem[0], Q_rmem[mma_d], Tile8<BLOCK_KV, HEAD_DIM>::columns(K_smem, mma_d),
                mma_d > 0);
  wgmma_commit();
}

// Loads this warp's 16 rows of Q, as operand A of all products of a tile. That costs less energy
// than to read them from shared memory again for each tile of keys.
template <int HEAD_DIM>
FA_DEVICE void load_query(uint32_t (&Q_rmem)[HEAD_DIM / MMA_K8][4], uint32_t rows) {
  constexpr int SPAN = Tile8<BLOCK_Q, HEAD_DIM>::SPAN;
  static_assert(SPAN == HEAD_DIM, "one panel");
  const int row = lane_index() % 16, swizzle = row * SPAN / 128 % (SPAN / 16);
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K8; ++mma_d) {
    const int chunk = mma_d * 2 + lane_index() / 16;
    ldmatrix_x4(Q_rmem[mma_d], rows + row * SPAN + (chunk ^ swizzle) * 16);
  }
}

// Starts O += P @ V   [64, HEAD_DIM], or O = P @ V.
template <int MMAS_D, int STEPS>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[1][MMAS_D][4], uint32_t (&P_rmem)[STEPS][4],
                                      uint32_t V_smem, bool accumulate) {
  wgmma_fence();  // ordinary instructions have written P
  for (int step = 0; step < STEPS; ++step)
    wgmma<e4m3>(O_rmem[0], P_rmem[step], Tile8<MMAS_D * MMA_N, BLOCK_KV>::columns(V_smem, step),
                accumulate || step > 0);
  wgmma_commit();
}

template <int HEAD_DIM, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(128 * (1 + CONSUMERS), 1)
void attention(FA_GRID_CONSTANT const Params params, Breaks breaks) {
  using QTile = Tile8<BLOCK_Q, HEAD_DIM>;
  using VTile = Tile8<HEAD_DIM, BLOCK_KV>;
  constexpr int MMAS_D = HEAD_DIM / MMA_N;
  constexpr uint32_t KV_TILE_BYTES = BLOCK_KV * HEAD_DIM;

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + 2 * QTile::BYTES;
  const uint32_t V_smem = K_smem + STAGES * KV_TILE_BYTES;
  const uint32_t O_smem = V_smem + STAGES * KV_TILE_BYTES;
  const uint32_t Q_full = O_smem + BLOCK_Q * HEAD_DIM * sizeof(bf16);  // mbarriers, 8 bytes each
  const uint32_t K_full = Q_full + 2 * 8;                              // one per buffer
  const uint32_t V_full = K_full + STAGES * 8;
  const uint32_t Q_empty = V_full + STAGES * 8;
  const uint32_t K_empty = Q_empty + 2 * 8;
  const uint32_t V_empty = K_empty + STAGES * 8;
  const uint32_t tickets = V_empty + STAGES * 8;  // one for each buffer of Q
  // The buffer, mbarrier and phase of the n-th tile of keys, as in chapter 21. `used` has a bit for
  // each buffer, which is the parity of the phase that its next tile fills.
  const auto buffer = [](uint32_t smem, int n) { return smem + n % STAGES * KV_TILE_BYTES; };
  const auto of = [](uint32_t mbarriers, int n) { return mbarriers + n % STAGES * 8; };
  const auto of_q = [](uint32_t mbarriers, int i) { return mbarriers + i % 2 * 8; };
  const auto phase = [](uint32_t used, int n) { return (used >> n % STAGES ^ n / STAGES) & 1; };
  const auto use = [](uint32_t used, int count) {
    for (int i = 0; i < STAGES; ++i) used ^= (count + STAGES - 1 - i) / STAGES % 2 << i;
    return used;
  };

  if (thread_index() == 0) {
    // Arrivals of the producer; of each lane, which has read Q and its ticket; and one per
    // consumer, by a thread that has waited for the product of its warpgroup.
    for (int i = 0; i < 2 + 2 * STAGES; ++i) mbarrier_init(Q_full + i * 8, 1);
    for (int i = 0; i < 2; ++i) mbarrier_init(Q_empty + i * 8, 128 * CONSUMERS);
    for (int i = 0; i < 2 * STAGES; ++i) mbarrier_init(K_empty + i * 8, CONSUMERS);
    fence_mbarrier_init();  // the copy engine sees them
  }
  block_sync();  // all mbarriers are initialized before a thread waits for one

  if (warp_index() < 4) {
    setmaxnreg_dec<24>();
    if (warp_index() > 0 || !elect_one()) return;
    uint32_t used = 0;
    int index = block_index();
    for (int i = 0;; ++i) {
      const bool last = index >= params.q_tiles * params.heads;
      const Work work = work_of(params, last ? 0 : index);
      const Tiles<BLOCK_KV> tiles = tiles_of(params, work.first_row);
      const int kv_head = work.head / params.group;
      mbarrier_wait(of_q(Q_empty, i), i / 2 % 2 ^ 1);
      store_shared<Ticket>(tickets + i % 2 * sizeof(Ticket),
                           {{index, work.first_row, work.head, kv_head}});
      if (last) {
        mbarrier_arrive(of_q(Q_full, i));
        return;
      }
      mbarrier_arrive_expect_tx(of_q(Q_full, i), QTile::BYTES);
      tma_load_3d(Q_smem + i % 2 * QTile::BYTES, params.Q_map, 0, work.first_row, work.head,
                  of_q(Q_full, i));
      const int count = tiles.count() > 0 ? tiles.count() : 0;
      for (int n = 0; n < count; ++n) {
        const int key = (tiles.begin + n) * BLOCK_KV;
        // All consumers have multiplied by the previous tile of this buffer. In the first pass
        // there was none, and on a new mbarrier parity 1 counts as complete.
        mbarrier_wait(of(K_empty, n), phase(used, n) ^ 1);
        mbarrier_arrive_expect_tx(of(K_full, n), KV_TILE_BYTES);
        tma_load_3d(buffer(K_smem, n), params.K_map, 0, key, kv_head, of(K_full, n));
        mbarrier_wait(of(V_empty, n), phase(used, n) ^ 1);
        mbarrier_arrive_expect_tx(of(V_full, n), KV_TILE_BYTES);
        FA_UNROLL
        for (int panel = 0; panel < VTile::PANELS; ++panel)
          tma_load_3d(buffer(V_smem, n) + panel * VTile::PANEL_BYTES, params.V_map,
                      key + panel * VTile::SPAN, 0, kv_head, of(V_full, n));
      }
      used = use(used, count);
      index = claim(params);
    }
  }
  setmaxnreg_inc<240>();

  // Equal in all lanes. The shuffle tells the compiler, so that it may keep values that depend on
  // it in uniform registers.
  const int consumer = shfl(warp_index() / 4 - 1, 0);
  uint32_t used = 0;
  for (int i = 0;; ++i) {
    mbarrier_wait(of_q(Q_full, i), i / 2 % 2);
    const auto ticket = [&](Ticket::Word word) {
      return shfl(load_shared<int>(tickets + i % 2 * sizeof(Ticket) + word * 4), 0);
    };
    // The warp's first row. The ticket is read again where it is needed, because the loop has no
    // registers to keep it.
    const auto warp_row = [&] {
      return ticket(Ticket::FIRST_ROW) + opaque(warp_index() - 4) * MMA_M;
    };
    if (ticket(Ticket::INDEX) >= params.q_tiles * params.heads) break;
    uint32_t Q_rmem[HEAD_DIM / MMA_K8][4];
    load_query<HEAD_DIM>(Q_rmem,
                         Q_smem + i % 2 * QTile::BYTES + (warp_index() - 4) * MMA_M * QTile::SPAN);
    const Tiles<BLOCK_KV> tiles = tiles_of(params, ticket(Ticket::FIRST_ROW));
    const int count = tiles.count() > 0 ? tiles.count() : 0;
    const int first_row = ticket(Ticket::FIRST_ROW) + consumer * WARPGROUP_Q;  // of the warpgroup

    Facts Q_facts = {0.0f, 0.0f};  // the facts of rows past the end
    if (first_row < params.len_q)
      Q_facts =
          load_global(params.Q_facts + ticket(Ticket::HEAD) * ceil_div(params.len_q, WARPGROUP_Q) +
                      first_row / WARPGROUP_Q);
    const float Q_scale = Q_facts.scale * params.scale_log2;
    const float Q_norm = Q_facts.norm * params.scale_log2;
    const Facts* const K_facts = params.K_facts +
                                 ticket(Ticket::KV_HEAD) * ceil_div(params.mask.len_kv, BLOCK_KV) +
                                 tiles.begin;

    float O_rmem[1][MMAS_D][4] = {};  // sums in fp32
    float core_rmem[1][MMAS_D][4];    // sum of the last tiles, as the tensor core keeps it
    float m[2] = {NEG_INF, NEG_INF};  // exponent that is subtracted, in base 2
    float l[2] = {};                  // running row sum of this lane's columns
    float S_rmem[1][BLOCK_KV / MMA_N][4];
    uint32_t P_rmem[BLOCK_KV / MMA_K8][4];  // wgmma may read it until the wait
    bool fresh = true;                      // the next product overwrites core_rmem
    const float reference = breaks.has(fa::P_UNSCALED) ? 0.0f : REFERENCE;
    const float most = breaks.has(fa::P_UNSCALED) ? 14.0f : LARGEST_WEIGHT;

    const auto begin_scores = [&, breaks](int n) {  // S = Q @ K.T
      if (!breaks.has(fa::MISSING_WAIT)) mbarrier_wait(of(K_full, n), phase(used, n));
      multiply_query_key<HEAD_DIM>(S_rmem, Q_rmem, buffer(K_smem, n));
    };
    const auto begin_output = [&](int n) {  // O += P @ V
      mbarrier_wait(of(V_full, n), phase(used, n));
      multiply_weights_value(core_rmem, P_rmem, buffer(V_smem, n), !fresh);
      fresh = false;
    };
    const auto finish_output = [&](int n) {
      wgmma_wait<0>(core_rmem[0]);
      if (thread_index() % 128 == 0) mbarrier_arrive(of(V_empty, n));
    };
    // [anchor: second_level]
    // The tensor core keeps 13 bits below the leading one of its sum, while fp32 keeps 23.
    const auto move_to_sums = [&] {
      for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
        for (int i = 0; i < 4; ++i) O_rmem[0][mma_d][i] += core_rmem[0][mma_d][i];
      fresh = true;
    };
    // [/anchor: second_level]

    float scale, rescale[1][2], sum[2];  // values for the current tile
    bool look = true;  // check the maximum before the exponentials, because there is none in the
                       // first tile
    bool grew, large;
    // [anchor: weights]
    // Turns the finished S into weights.
    const auto exponentials = [&, breaks](int n, const Facts& facts) {
      if (thread_index() % 128 == 0) mbarrier_arrive(of(K_empty, n));
      scale = facts.scale * Q_scale;
      if (scale < 0x1p-126f) scale = 0x1p-126f;  // -inf times 0 would be NaN
      const int tile = tiles.begin + n;
      const bool edge = tile < tiles.clear_begin || tile >= tiles.clear_end;
      if (edge) mask_scores(S_rmem, params.mask, warp_row(), tile * BLOCK_KV);
      // No score exceeds |q| |k| (Cauchy and Schwarz). If that is below 57, m is at least -59,
      // because raise_row_max may leave it 2 too small, and a weight is at most 2^(57 + 59 + 5) =
      // 2^121, while fp32 holds 2^127. Otherwise check the maximum first, here and in the next
      // tile. Do so too if a mask may have left rows without a key.
      const bool far = !(facts.norm * Q_norm < 57.0f) && !breaks.has(fa::NO_BOUND);
      look = look || edge || far;
      grew = look && raise_row_max(m, rescale, S_rmem, scale, breaks);
      look = edge || far;
      large = exponentiate(S_rmem, sum, m, scale, reference, most);
    };
    // [/anchor: weights]

    Pair V_scales[MMAS_D], V_mean[MMAS_D];
    const auto load_channels = [&] {
      const int first = ticket(Ticket::KV_HEAD) * HEAD_DIM + lane_index() % 4 * 2;
      for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
        const int column = first + mma_d * MMA_N;
        V_scales[mma_d] = load_global(reinterpret_cast<const Pair*>(params.V_scales + column));
        V_mean[mma_d] = load_global(reinterpret_cast<const Pair*>(params.V_mean + column));
      }
    };

    // [anchor: main_loop]
    if (count > 0) {
      const Facts facts = load_global(K_facts);
      begin_scores(0);
      wgmma_wait<0>(S_rmem[0]);
      exponentials(0, facts);
      for (int half = 0; half < 2; ++half) l[half] = sum[half];
      pack(P_rmem, S_rmem);
      int stays = 0;
      for (int n = 1; n < count; ++n) {
        const Facts facts = load_global(K_facts + n);
        begin_scores(n);
        begin_output(n - 1);
        wgmma_wait<1>(S_rmem[0]);  // O stays in flight
        exponentials(n, facts);
        finish_output(n - 1);
        if (warp_any(large) && !breaks.has(fa::FP8_NO_SUM_CHECK)) {
          float lower[1][2];
          lower_weights(S_rmem, sum, m, lower, reference, breaks);
          for (int half = 0; half < 2; ++half)
            rescale[0][half] = grew ? rescale[0][half] * lower[0][half] : lower[0][half];
          grew = true;
        }
        if (++stays == params.stay) {
          move_to_sums();
          stays = 0;
        }
        if (grew && !breaks.has(fa::NO_RESCALE)) {
          for (int half = 0; half < 2; ++half) l[half] *= rescale[0][half];
          scale_rows(O_rmem, rescale);
          if (!fresh) scale_rows(core_rmem, rescale);
        }
        for (int half = 0; half < 2; ++half) l[half] += sum[half];
        pack(P_rmem, S_rmem);
      }
      begin_output(count - 1);
      load_channels();
      finish_output(count - 1);
      move_to_sums();
    }
    // [/anchor: main_loop]
    used = use(used, count);
    // Multiplies each channel of V by its scale and adds its mean back, once per weight. A fully
    // masked row is excluded, because even a NaN of V must have no effect there.
    for (float& sum : l) sum = quad_reduce(sum, breaks, [](float a, float b) { return a + b; });
    for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
      for (int i = 0; i < 2; ++i)
        for (int half = 0; half < 2; ++half) {
          float& o = O_rmem[0][mma_d][half * 2 + i];
          o = l[half] == 0.0f ? 0.0f
                              : fma(V_mean[mma_d].value[i], l[half], o * V_scales[mma_d].value[i]);
        }
    const int head = ticket(Ticket::HEAD), first = warp_row();
    const int64_t row = int64_t{head} * params.len_q + first;
    for (int half = 0; half < 2; ++half) {
      m[half] -= reference;
      const int of_half = half * 8 + lane_index() / 4;
      if (params.LSE_offset != nullptr && l[half] != 0.0f && first + of_half < params.len_q)
        m[half] = fma(load_global(params.LSE_offset + row + of_half), 1.44269504f, m[half]);
    }
    store_async(params, head, first, O_smem + (warp_index() - 4) * MMA_M * HEAD_DIM * 2, O_rmem, m,
                l);
    mbarrier_arrive(of_q(Q_empty, i));  // by each lane, because each has read the ticket
  }
  if (lane_index() == 0) tma_store_wait_read<0>();  // the block's shared memory is still needed
}

// Describes a tensor [heads, rows, WIDTH] of bytes. A box is `box_rows` rows of SPAN columns.
template <int SPAN>
TensorMap map_of(const e4m3* data, int64_t heads, int64_t rows, int64_t width, int box_rows,
                 Swizzle swizzle) {
  return make_tensor_map(data, {width, rows, heads}, {width, rows * width}, {SPAN, box_rows, 1},
                         swizzle);
}

// Launches the kernels that convert Q, K and V to 8 bits. Returns the parameters of the attention.
template <int HEAD_DIM>
Params start_quantizing(const fa::ForwardArgs& args) {
  check_scale_and_strides(args.scale, {&args.q, &args.k, &args.v, &args.o});
  const auto [batch, heads, len_q, dim] = args.q.shape;
  const int64_t len_kv = args.k.shape[2], q_heads = batch * heads;
  const int64_t k_heads = batch * args.k.shape[1];
  const int group = static_cast<int>(q_heads / k_heads);
  const int q_tiles = static_cast<int>((len_q + BLOCK_Q - 1) / BLOCK_Q);
  const Workspace w =
      workspace_of(args.workspace, {batch, heads, len_q, len_kv, dim}, args.k.shape[1]);
  const auto data = [](const fa::TensorRef& tensor) { return static_cast<bf16*>(tensor.data); };
  // Tiles of a head are in the grid's second dimension, which is at most 65535.
  const auto grid = [](int64_t of_heads, int64_t rows, int tile, int z = 1) {
    const int64_t tiles = (rows + tile - 1) / tile;
    if (tiles > 65535)
      throw fa::InputError(std::to_string(rows) + " rows: up to " +
                           std::to_string(int64_t{65535} * tile) + " in this chapter");
    return Dim3{static_cast<int>(of_heads), static_cast<int>(tiles), z};
  };
  if (q_heads * q_tiles > std::numeric_limits<int>::max()) {
    throw fa::InputError(std::to_string(q_heads * q_tiles) +
                         " tiles of queries in all heads: up to 2147483647 in this chapter");
  }

  using Row = Eight<HEAD_DIM>;
  LaunchConfig config{.grid = grid(k_heads, len_kv, CHUNK, 2),
                      .block = {QUANTIZE_THREADS},
                      .smem_bytes = 3 * Row::ROWS * HEAD_DIM * sizeof(float)};
  const int chunks = config.grid.y;
  launch(measure_columns<HEAD_DIM>, config, data(args.k), data(args.v), w.column_sums,
         static_cast<int>(len_kv));
  const Means means{w.K_mean, w.V_mean, w.V_scales, (args.breaks & fa::FP8_NO_SMOOTHING) != 0,
                    w.claimed};
  launch(finish_columns<HEAD_DIM>, static_cast<int>(2 * k_heads), HEAD_DIM, 0, w.column_sums, means,
         chunks, static_cast<int>(len_kv), static_cast<int>(k_heads));
  config.grid = grid(k_heads, len_kv, BLOCK_KV);
  config.smem_bytes = HEAD_DIM * 128;
  launch(turn_values<HEAD_DIM>, config, data(args.v), w.V, w.V_mean, w.V_scales,
         static_cast<int>(len_kv), (args.breaks & fa::KEYS_IN_ORDER) != 0);
  const bool offset = args.lse.data != nullptr && !(args.breaks & fa::FP8_LSE_UNCORRECTED);
  float* const LSE_offset = offset ? w.LSE_offset : nullptr;
  config.smem_bytes = 2 * Row::ROWS * sizeof(float);
  config.grid = grid(q_heads, len_q, WARPGROUP_Q);
  launch(quantize_rows<HEAD_DIM, Operand::Q>, config,
         QuantizeParams{data(args.q), w.Q, w.Q_facts, static_cast<int>(len_q), w.K_mean, group,
                        LSE_offset, args.scale});
  config.grid = grid(k_heads, len_kv, BLOCK_KV);
  launch(quantize_rows<HEAD_DIM, Operand::K>, config,
         QuantizeParams{data(args.k), w.K, w.K_facts, static_cast<int>(len_kv), w.K_mean, 1,
                        nullptr, args.scale});
  using QTile = Tile8<BLOCK_Q, HEAD_DIM>;
  using VTile = Tile8<HEAD_DIM, BLOCK_KV>;
  const Swizzle K_swizzle = args.breaks & fa::SWIZZLE_ONE_SIDE ? Swizzle::none : QTile::SWIZZLE;
  // K and V of these heads take 16 MB, a third of an H200's L2 cache, because Q and O pass through
  // it too.
  const int64_t together = (int64_t{16} << 20) / (2 * len_kv * dim) * group;
  return {
      .Q_map = map_of<QTile::SPAN>(w.Q, q_heads, len_q, dim, BLOCK_Q, QTile::SWIZZLE),
      .K_map = map_of<QTile::SPAN>(w.K, k_heads, len_kv, dim, BLOCK_KV, K_swizzle),
      .V_map = map_of<VTile::SPAN>(w.V, k_heads, dim, padded(len_kv), HEAD_DIM, VTile::SWIZZLE),
      .Q_facts = w.Q_facts,
      .K_facts = w.K_facts,
      .V_scales = w.V_scales,
      .V_mean = w.V_mean,
      .LSE_offset = LSE_offset,
      .O_map = make_tensor_map(data(args.o), {dim, len_q, q_heads},
                               {dim * int64_t{sizeof(bf16)}, len_q * dim * int64_t{sizeof(bf16)}},
                               {64, MMA_M, 1}, Swizzle::bytes_128),
      .claimed = w.claimed,
      .LSE = static_cast<float*>(args.lse.data),
      .heads = static_cast<int>(q_heads),
      .group = group,
      .q_tiles = q_tiles,
      .together = static_cast<int>(std::clamp<int64_t>(together, 1, q_heads)),
      .stay = args.breaks & fa::ONE_LEVEL ? UNLIMITED
              : args.options[0] > 0       ? args.options[0]
                                          : 2,
      .len_q = static_cast<int>(len_q),
      .scale_log2 = args.scale * 1.44269504f,
      .mask = mask_of(args)};
}

template <int HEAD_DIM, class Breaks>
void start_attention(const Params& params, Breaks breaks) {
  constexpr size_t SMEM = (4 * BLOCK_Q + 2 * STAGES * BLOCK_KV) * HEAD_DIM +  // Q twice, O, K, V;
                          1024 + (4 + 4 * STAGES) * 8 +
                          2 * sizeof(Ticket);  // alignment; mbarriers; tickets
  launch(attention<HEAD_DIM, Breaks>, std::min(multiprocessors(), params.q_tiles * params.heads),
         128 * (1 + CONSUMERS), SMEM, params, breaks);
}

template <int HEAD_DIM, class Breaks>
void launch_attention(const fa::ForwardArgs& args, Breaks breaks) {
  start_attention<HEAD_DIM>(start_quantizing<HEAD_DIM>(args), breaks);
}

// Called by host code. (A template, so that it is compiled only where it is used.)
template <class Args>
void forward(const Args& args) {
  dispatch(args, [&](auto head_dim, auto breaks) { launch_attention<head_dim>(args, breaks); });
}

}  // namespace FA_BACKEND::ch23
