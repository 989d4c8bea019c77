#pragma once
// Chapter 11: decoding. One query, or a few, and a long cache of keys.
//
// A single tile of queries cannot be shared by blocks, so the keys are split instead. Each block
// processes a part of them, and each of its warps a part of that, with its own m, l and O and
// without a barrier. Merging the states at the end is associative. The query heads that share a
// head of K and V are the rows of one tile, so that the cache is read once. A table of pages gives
// the row of a key.

#include "chapters/11_decoding/params.hpp"

namespace FA_BACKEND::ch11 {

// Returns where the 16-byte chunk at `offset` of a row-major tile is stored, as in chapter 09.
template <int ROW_BYTES>
FA_HOST_DEVICE constexpr uint32_t swizzle(uint32_t offset) {
  static_assert(ROW_BYTES == 128 || ROW_BYTES == 256);
  return offset ^ (offset / ROW_BYTES % 8 * 16);
}

struct alignas(16) Chunk {
  uint32_t words[4];
};
struct alignas(8) Pair {
  float x, y;
};

// One head of K and V of a sequence: in the cache, through its pages, and with APPEND the newest
// keys, [old_len, len), in separate tensors. This call puts them into the cache.
template <bool PAGED, bool APPEND>
struct Cache {
  Tensor K, V, K_new, V_new;
  const int* table;  // the sequence's pages
  int page_size, old_len;

  struct Place {
    int page, row;
  };
  // [anchor: place]
  // Page and row of a key. The key must exist, because the table may hold any number after a
  // sequence's last page.
  template <class Breaks>
  FA_DEVICE Place place(int key, Breaks breaks) const {
    if (!PAGED) return {0, key};
    const int column = key / page_size + (breaks.has(fa::PAGE_OFF_BY_ONE) ? 1 : 0);
    return {load_global(table + column), key % page_size};
  }
  // [/anchor: place]

  // Returns the address of column `col` of the key at `place` in a tensor of the cache or the
  // input.
  FA_DEVICE static char* address(const Tensor& tensor, Place place, int col) {
    return tensor.data + place.page * tensor.batch + int64_t{place.row} * tensor.row +
           col * ELEMENT;
  }
};

// [anchor: load_keys]
// Starts copying `KEYS` keys and their values, beginning at key `first`. `mine` is the place of key
// `first` + lane; the lanes that copy this key get it by a shuffle. Keys `stop` and above
// are not in this split, so they are not read and become zeros.
template <int HEAD_DIM, int KEYS, bool PAGED, bool APPEND, class Breaks>
FA_DEVICE void load_keys(uint32_t K_smem, uint32_t V_smem, const Cache<PAGED, APPEND>& cache,
                         typename Cache<PAGED, APPEND>::Place mine, int first, int stop, int cols,
                         Breaks breaks) {
  constexpr int CHUNKS = HEAD_DIM * ELEMENT / 16, STEP_ROWS = WARP_SIZE / CHUNKS;
  const int lane_row = lane_index() / CHUNKS, col = lane_index() % CHUNKS * 8;
  FA_UNROLL
  for (int row = 0; row < KEYS; row += STEP_ROWS) {
    const int key = first + row + lane_row;
    auto place = mine;
    place.page = PAGED ? shfl(mine.page, row + lane_row) : 0;
    place.row = PAGED ? shfl(mine.row, row + lane_row) : key;
    const bool fresh = APPEND && key >= cache.old_len;
    if (fresh) place = {0, key - cache.old_len};
    const int K_bytes = key < stop && col < cols ? 16 : 0;
    const int V_bytes = breaks.has(fa::STALE_VALUES) && col < cols ? 16 : K_bytes;
    const uint32_t dst =
        swizzle<HEAD_DIM * ELEMENT>((row + lane_row) * HEAD_DIM * ELEMENT + col * ELEMENT);
    cp_async_16(K_smem + dst, cache.address(fresh ? cache.K_new : cache.K, place, col), K_bytes);
    cp_async_16(V_smem + dst, cache.address(fresh ? cache.V_new : cache.V, place, col), V_bytes);
  }
  cp_async_commit();
}
// [/anchor: load_keys]

// [anchor: append]
// Writes the new keys among [first, stop), and their values, to their places in the cache. No block
// reads them there during this call, because every block takes them from the input.
template <int THREADS, class Cache, class Breaks>
FA_DEVICE void append(const Cache& cache, int first, int stop, int cols, Breaks breaks) {
  const int begin = first > cache.old_len ? first : cache.old_len, chunks = cols / 8;
  for (int i = thread_index(); i < (stop - begin) * chunks; i += THREADS) {
    const int key = begin + i / chunks, col = i % chunks * 8;
    const auto place = cache.place(key, breaks);
    const auto copy = [&](const Tensor& from, const Tensor& to) {
      const char* source = cache.address(from, {0, key - cache.old_len}, col);
      store_global(reinterpret_cast<Chunk*>(cache.address(to, place, col)),
                   load_global(reinterpret_cast<const Chunk*>(source)));
    };
    copy(cache.K_new, cache.K);
    copy(cache.V_new, cache.V);
  }
}
// [/anchor: append]

// S = Q @ K.T   [16 MMAS_Q, KEYS], from Q in registers
template <class T, int HEAD_DIM, int MMAS_Q, int MMAS_KV>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_Q][MMAS_KV][4],
                                  const uint32_t (&Q_rmem)[HEAD_DIM / MMA_K][MMAS_Q][4],
                                  uint32_t K_smem) {
  constexpr uint32_t ROW_BYTES = HEAD_DIM * ELEMENT;
  const uint32_t lane_row = lane_index() / 16 * 8 + lane_index() % 8;
  const uint32_t K_lane = swizzle<ROW_BYTES>(lane_row * ROW_BYTES + lane_index() / 8 % 2 * 16);
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d)
    for (int mma_kv = 0; mma_kv < MMAS_KV; mma_kv += 2) {
      uint32_t K_rmem[4];
      ldmatrix_x4(K_rmem,
                  K_smem + mma_kv * MMA_N * ROW_BYTES + (K_lane ^ (mma_d * MMA_K * ELEMENT)));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16<T>(Q_rmem[mma_d][mma_q], {K_rmem[0], K_rmem[1]}, S_rmem[mma_q][mma_kv]);
        mma_m16n8k16<T>(Q_rmem[mma_d][mma_q], {K_rmem[2], K_rmem[3]}, S_rmem[mma_q][mma_kv + 1]);
      }
    }
}

// [anchor: tree]
// Hides new tokens of other branches. The first column of S is new token `first_token`, or a key of
// the cache if that is negative. Bit j of a row's word says whether the row sees new token j.
template <int MMAS_Q, int MMAS_KV>
FA_DEVICE void hide_other_branches(float (&S_rmem)[MMAS_Q][MMAS_KV][4], const uint64_t* words,
                                   int first_row, int rows, int group, int first_token) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + mma_q * MMA_M + half * 8 + lane_index() / 4;
      const uint64_t word = row < rows ? load_global(words + row / group) : 0;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
        for (int right = 0; right < 2; ++right) {
          const int token = first_token + mma_kv * MMA_N + lane_index() % 4 * 2 + right;
          if (token >= 0 && token < 64 && (word >> token & 1) == 0)
            S_rmem[mma_q][mma_kv][half * 2 + right] = NEG_INF;
        }
    }
}
// [/anchor: tree]

// m' = max(m, rowmax S),   rescale = exp(scale (m - m'))
template <int MMAS_Q, int MMAS_KV, class Breaks>
FA_DEVICE void raise_row_max(float (&m)[MMAS_Q][2], float (&rescale)[MMAS_Q][2],
                             const float (&S_rmem)[MMAS_Q][MMAS_KV][4], float scale_log2,
                             Breaks breaks) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      float row_max = NEG_INF;
      for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
        const float* c = &S_rmem[mma_q][mma_kv][half * 2];
        row_max = max(row_max, max(c[0], c[1]));
      }
      row_max = quad_reduce(row_max, breaks, [](float a, float b) { return max(a, b); });
      const float m_old = m[mma_q][half];
      m[mma_q][half] = max(m_old, row_max);
      rescale[mma_q][half] = exp2((m_old - subtrahend(m[mma_q][half])) * scale_log2);
    }
}

// O += P @ V   [16 MMAS_Q, HEAD_DIM]
template <class T, int MMAS_Q, int MMAS_D, int STEPS>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_Q][MMAS_D][4],
                                      const uint32_t (&P_rmem)[MMAS_Q][STEPS][4], uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * ELEMENT;
  const uint32_t V_lane =
      swizzle<ROW_BYTES>(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  for (int mma_kv = 0; mma_kv < STEPS; ++mma_kv)
    for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
      uint32_t V_rmem[4];
      ldmatrix_x4_trans(V_rmem,
                        V_smem + mma_kv * MMA_K * ROW_BYTES + (V_lane ^ (mma_d * MMA_N * ELEMENT)));
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
        mma_m16n8k16<T>(P_rmem[mma_q][mma_kv], {V_rmem[0], V_rmem[1]}, O_rmem[mma_q][mma_d]);
        mma_m16n8k16<T>(P_rmem[mma_q][mma_kv], {V_rmem[2], V_rmem[3]}, O_rmem[mma_q][mma_d + 1]);
      }
    }
}

// A row of the tile is a query of one of the heads that share a head of K and V.
struct Row {
  int sequence, head, query;
};

// With TREE, there may be a tree of new tokens. A kernel that always asks is up to 3 % slower.
template <class T, int HEAD_DIM, int MMAS_Q, int WARPS, int KEYS, int STAGES, bool PAGED,
          bool APPEND, bool TREE, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(32 * WARPS, 1)
void attend(const Params p, Breaks breaks) {
  constexpr int BLOCK_Q = MMAS_Q * MMA_M, MMAS_KV = KEYS / MMA_N, MMAS_D = HEAD_DIM / MMA_N;
  constexpr uint32_t TILE_BYTES = KEYS * HEAD_DIM * ELEMENT;  // one tile of K or V
  constexpr int BLOCK_KEYS = WARPS * KEYS;                    // the warps' tiles, side by side
  const Dim3 block = block_index_3d();
  const int split = block.x, y = block.y, batch = block.z;
  // [anchor: rows]
  const int rows = p.sequences * p.len_q * p.group, row_tiles = ceil_div(rows, BLOCK_Q);
  const int kv_head = y / row_tiles, first_row = y % row_tiles * BLOCK_Q;
  const auto row_at = [&](int row_of_tile) {
    const int index = first_row + row_of_tile;
    const Row row{batch, kv_head * p.group + index % p.group, index / p.group};
    return p.sequences == 1 ? row : Row{row.query / p.len_q, row.head, row.query % p.len_q};
  };
  // [/anchor: rows]

  const int old_len = p.lengths != nullptr ? load_global(p.lengths + batch) : p.len_kv;
  const int len = old_len + (APPEND ? p.len_new : 0);
  const Mask mask{len, len - p.len_q, UNLIMITED, p.causal ? 0 : UNLIMITED};
  const int last_row = (first_row + BLOCK_Q < rows ? first_row + BLOCK_Q : rows) - 1;
  // [anchor: split]
  // This split has [first, stop) of the keys that any row of the tile sees, or none if that is
  // empty. The parts are cut from the length of the sequence, not from what the cache has room for.
  const int seen = mask.end_key(last_row / p.group);
  const int tiles = seen > p.first_key ? ceil_div(seen - p.first_key, BLOCK_KEYS) : 0;
  const int part = ceil_div(tiles, p.splits) * BLOCK_KEYS;
  const int overlap = breaks.has(fa::OVERLAPPING_SPLITS) && split > 0 && tiles > 0 ? 1 : 0;
  const int first = p.first_key + split * part - overlap, end = p.first_key + (split + 1) * part;
  const int stop = end < seen ? end : seen;
  const int count = first < stop ? ceil_div(stop - first, BLOCK_KEYS) : 0;
  // [/anchor: split]
  const bool has_tree = TREE && p.tree != nullptr;
  const int all_see = has_tree ? len - p.len_q : mask.end_key(first_row / p.group);
  const int clear = all_see < stop ? all_see : stop;  // all rows see the keys before it

  const int warp = shfl(warp_index(), 0);
  const uint32_t ring = dynamic_smem() + warp * STAGES * 2 * TILE_BYTES;
  const auto K_smem = [&](int n) { return ring + n % STAGES * 2 * TILE_BYTES; };
  const auto first_key = [&](int n) { return first + n * BLOCK_KEYS + warp * KEYS; };
  const auto of_head = [&](const Tensor& tensor, bool pages) {
    Tensor head = tensor;
    head.data += (pages ? 0 : batch * tensor.batch) + kv_head * tensor.head;
    return head;
  };
  const Cache<PAGED, APPEND> cache{of_head(p.K, PAGED),
                                   of_head(p.V, PAGED),
                                   of_head(p.K_new, false),
                                   of_head(p.V_new, false),
                                   PAGED ? p.table + batch * int64_t{p.table_columns} : nullptr,
                                   p.page_size,
                                   old_len};
  const auto place = [&, breaks](int n) {
    const int key = first_key(n) + lane_index() % KEYS;
    const bool looked_up = n < count && (key < old_len || breaks.has(fa::STALE_VALUES));
    return looked_up ? cache.place(key, breaks) : typename Cache<PAGED, APPEND>::Place{0, 0};
  };
  const auto load = [&, breaks](int n, typename Cache<PAGED, APPEND>::Place at) {
    if (n < count)
      load_keys<HEAD_DIM, KEYS>(K_smem(n), K_smem(n) + TILE_BYTES, cache, at, first_key(n), stop,
                                p.dim, breaks);
    else
      cp_async_commit();
  };
  typename Cache<PAGED, APPEND>::Place at[STAGES];
  for (int n = 0; n < STAGES; ++n) at[n] = place(n);  // reads all entries first: latencies overlap
  for (int n = 0; n < STAGES - 1; ++n) load(n, at[n]);
  auto next = at[STAGES - 1];
  if (APPEND && last_row == rows - 1)  // these rows see all keys, which earlier rows may not
    append<WARPS * WARP_SIZE>(cache, first, stop, p.dim, breaks);

  uint32_t Q_rmem[HEAD_DIM / MMA_K][MMAS_Q][4];
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const int row = mma_q * MMA_M + half * 8 + lane_index() / 4;
      const auto [sequence, head, query] = row_at(row);
      const char* Q = p.Q.data + sequence * p.Q.batch + head * p.Q.head + int64_t{query} * p.Q.row;
      for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d)
        for (int right = 0; right < 2; ++right) {
          const int col = mma_d * MMA_K + right * 8 + lane_index() % 4 * 2;
          Q_rmem[mma_d][mma_q][right * 2 + half] =
              first_row + row < rows && col < p.dim
                  ? load_global(reinterpret_cast<const uint32_t*>(Q + col * ELEMENT))
                  : 0;
        }
    }

  const float scale_log2 = p.scale * 1.44269504f;
  float O_rmem[MMAS_Q][MMAS_D][4] = {}, m[MMAS_Q][2], l[MMAS_Q][2] = {};
  for (auto& row : m) row[0] = row[1] = NEG_INF;
  FA_NO_UNROLL
  for (int n = 0; n < count; ++n) {
    cp_async_wait<STAGES - 2>();
    warp_sync();  // all lanes' copies have landed, and all have read the previous tile
    load(n + STAGES - 1, next);
    next = place(n + STAGES);

    float S_rmem[MMAS_Q][MMAS_KV][4] = {};
    multiply_query_key<T, HEAD_DIM>(S_rmem, Q_rmem, K_smem(n));
    const int key = first_key(n);
    if (key + KEYS > clear) {
      for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
        for (int i = 0; i < 4; ++i) {
          const int row = first_row + mma_q * MMA_M + i / 2 * 8 + lane_index() / 4;
          const int end_key = mask.end_key(row / p.group);
          const int hidden = (end_key < stop ? end_key : stop) - key - lane_index() % 4 * 2 - i % 2;
          for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
            if (mma_kv * MMA_N >= hidden) S_rmem[mma_q][mma_kv][i] = NEG_INF;
        }
      if (has_tree && !breaks.has(fa::TREE_AS_CHAIN))
        hide_other_branches(S_rmem, p.tree + int64_t{batch} * p.len_q, first_row, rows, p.group,
                            key - (len - p.len_q));
    }
    uint32_t P_rmem[MMAS_Q][MMAS_KV / 2][4];
    float rescale[MMAS_Q][2];
    raise_row_max(m, rescale, S_rmem, scale_log2, breaks);
    for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
      for (int half = 0; half < 2; ++half) {
        const float m_row = subtrahend(m[mma_q][half]);
        float sum = 0.0f;
        for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv) {
          const float* s = &S_rmem[mma_q][mma_kv][half * 2];
          const float p0 = exp2((s[0] - m_row) * scale_log2);
          const float p1 = exp2((s[1] - m_row) * scale_log2);
          sum += p0 + p1;
          P_rmem[mma_q][mma_kv / 2][mma_kv % 2 * 2 + half] = pack<T>(p0, p1);
        }
        l[mma_q][half] = l[mma_q][half] * rescale[mma_q][half] + sum;
      }
    scale_rows(O_rmem, rescale);
    multiply_weights_value<T>(O_rmem, P_rmem, K_smem(n) + TILE_BYTES);
  }

  // Merges the warps' states in the ring's memory, because every tile has been waited for.
  block_sync();
  constexpr int PITCH = HEAD_DIM + 8;  // so that four rows of pairs use 32 banks
  constexpr uint32_t STATE_BYTES = BLOCK_Q * (PITCH + 2) * sizeof(float);
  const uint32_t states = dynamic_smem();
  const auto O_at = [&](int of_warp, int row, int col) {
    return states + of_warp * STATE_BYTES + (row * PITCH + col) * 4u;
  };
  const auto m_at = [&](int of_warp, int row) { return O_at(of_warp, BLOCK_Q, 0) + row * 8u; };
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const int row = mma_q * MMA_M + half * 8 + lane_index() / 4;
      const float sum = quad_reduce(l[mma_q][half], breaks, [](float a, float b) { return a + b; });
      if (lane_index() % 4 == 0) store_shared<Pair>(m_at(warp, row), {m[mma_q][half], sum});
      for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
        const float* o = &O_rmem[mma_q][mma_d][half * 2];
        store_shared<Pair>(O_at(warp, row, mma_d * MMA_N + lane_index() % 4 * 2), {o[0], o[1]});
      }
    }
  block_sync();
  const int row_count = rows - first_row < BLOCK_Q ? rows - first_row : BLOCK_Q;
  for (int pair = thread_index(); pair < row_count * HEAD_DIM / 2; pair += WARPS * WARP_SIZE) {
    const int row = pair / (HEAD_DIM / 2), col = pair % (HEAD_DIM / 2) * 2;
    const auto [sequence, head, query] = row_at(row);
    // [anchor: sink]
    // A sink is one more state, (m, l, o) = (sink, 1, 0). Only the first part counts it, because
    // the parts are added up.
    const bool counts =
        p.sinks != nullptr && (p.first_part + split == 0 || breaks.has(fa::SINK_IN_EVERY_SPLIT));
    const float sink = counts ? load_global(p.sinks + head) / p.scale : NEG_INF;
    Pair m_and_l[WARPS], o = {};
    float largest = sink;
    for (int w = 0; w < WARPS; ++w) {
      m_and_l[w] = load_shared<Pair>(m_at(w, row));
      largest = max(largest, m_and_l[w].x);
    }
    float sum = exp2((sink - subtrahend(largest)) * scale_log2);
    // [/anchor: sink]
    for (int w = 0; w < WARPS; ++w) {
      const float weight = exp2((m_and_l[w].x - subtrahend(largest)) * scale_log2);
      const Pair part = load_shared<Pair>(O_at(w, row, col));
      sum += m_and_l[w].y * weight;
      o = {o.x + part.x * weight, o.y + part.y * weight};
    }
    const bool saw_nothing = largest == NEG_INF && sum == 0.0f;
    const float inverse = saw_nothing ? 0.0f : 1.0f / sum;
    const float lse = saw_nothing ? NEG_INF : largest * p.scale + log(sum);
    const int64_t index = (int64_t{sequence} * p.heads + head) * p.len_q + query;
    if (p.parts == 1) {
      char* O = p.O.data + sequence * p.O.batch + head * p.O.head + int64_t{query} * p.O.row;
      if (col < p.dim)
        store_global(reinterpret_cast<uint32_t*>(O + col * ELEMENT),
                     pack<T>(o.x * inverse, o.y * inverse));
      if (col == 0 && p.LSE != nullptr) store_global(p.LSE + index, lse);
    } else {
      const int64_t all = int64_t{p.batches} * p.heads * p.len_q;
      const int part_index = breaks.has(fa::SHARED_PARTIAL) ? 0 : p.first_part + split;
      const int64_t at = part_index * all + index;
      if (col < p.dim)
        store_global(reinterpret_cast<Pair*>(p.partial_O + at * p.dim + col),
                     {o.x * inverse, o.y * inverse});
      const bool silent = breaks.has(fa::SILENT_EMPTY_SPLIT) && saw_nothing;
      if (col == 0 && !silent) store_global(p.partial_LSE + at, lse);
    }
  }
}

// O = sum of weight * partial O, where weight = exp(its LSE - the total LSE). One warp per row: its
// lanes read 32 splits at a time, then each lane sums its columns.
template <class T, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(32, 1)
void combine(const Params p, Breaks breaks) {
  const int64_t row = block_index();
  const uint32_t weights = dynamic_smem();
  const int64_t all = int64_t{p.batches} * p.heads * p.len_q;
  float own[MOST_SPLITS / WARP_SIZE], largest = NEG_INF;
  for (int i = 0; i < MOST_SPLITS / WARP_SIZE; ++i) {
    const int s = i * WARP_SIZE + lane_index();
    own[i] = s < p.parts ? load_global(p.partial_LSE + s * all + row) : NEG_INF;
    largest = max(largest, own[i]);
  }
  for (int bit = 1; bit < WARP_SIZE; bit *= 2) largest = max(largest, shfl_xor(largest, bit));
  const float base = subtrahend(largest);
  float sum = 0.0f;
  for (int i = 0; i < MOST_SPLITS / WARP_SIZE; ++i) {
    const bool equal =
        breaks.has(fa::NO_RESCALE_IN_COMBINE) && i * WARP_SIZE + lane_index() < p.parts;
    const float weight = equal ? 1.0f : exp(own[i] - base);
    sum += weight;
    store_shared<float>(weights + (i * WARP_SIZE + lane_index()) * 4u, weight);
  }
  for (int bit = 1; bit < WARP_SIZE; bit *= 2) sum += shfl_xor(sum, bit);
  warp_sync();            // all weights are stored
  constexpr int OWN = 2;  // pairs of columns: 2 lane and the next, 64 + 2 lane and the next
  Pair o[OWN] = {};
  constexpr int AHEAD = 8;
  for (int first = 0; first < p.parts; first += AHEAD) {
    FA_UNROLL
    for (int ahead = 0; ahead < AHEAD; ++ahead) {
      const int s = first + ahead < p.parts ? first + ahead : p.parts - 1;
      const float weight = first + ahead < p.parts ? load_shared<float>(weights + s * 4u) : 0.0f;
      const float* from = p.partial_O + (s * all + row) * p.dim;
      FA_UNROLL
      for (int i = 0; i < OWN; ++i) {
        const int col = (i * WARP_SIZE + lane_index()) * 2;
        if (col >= p.dim) continue;
        const Pair part = load_global(reinterpret_cast<const Pair*>(from + col));
        o[i] = {o[i].x + part.x * weight, o[i].y + part.y * weight};
      }
    }
  }
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
  const int query = static_cast<int>(row % p.len_q);
  const int head = static_cast<int>(row / p.len_q % p.heads);
  const int64_t batch = row / p.len_q / p.heads;
  char* O = p.O.data + batch * p.O.batch + head * p.O.head + int64_t{query} * p.O.row;
  FA_UNROLL
  for (int i = 0; i < OWN; ++i) {
    const int col = (i * WARP_SIZE + lane_index()) * 2;
    if (col < p.dim)
      store_global(reinterpret_cast<uint32_t*>(O + col * ELEMENT),
                   pack<T>(o[i].x * inverse, o[i].y * inverse));
  }
  if (p.LSE != nullptr && lane_index() == 0)
    store_global(p.LSE + row, largest == NEG_INF && sum == 0.0f ? NEG_INF : base + log(sum));
}

template <class T, int HEAD_DIM, int KEYS, bool PAGED, bool APPEND, bool TREE, class Breaks>
void launch_decode(const fa::DecodeArgs& args, Breaks breaks) {
  constexpr int MMAS_Q = 1, WARPS = 4, STAGES = 3;
  constexpr size_t RING = size_t{WARPS} * STAGES * 2 * KEYS * HEAD_DIM * ELEMENT;
  constexpr size_t STATES = size_t{WARPS} * MMAS_Q * MMA_M * (HEAD_DIM + 10) * sizeof(float);
  const auto attend_to = [&](auto kernel, const Params& params) {
    const int rows = params.sequences * params.len_q * params.group;
    const LaunchConfig config{
        .grid = {params.splits, params.heads / params.group * ceil_div(rows, MMAS_Q * MMA_M),
                 params.batches / params.sequences},
        .block = {WARPS * WARP_SIZE},
        .smem_bytes = std::max(RING, STATES)};
    launch(kernel, config, params, breaks);
  };
  if (PAGED && args.prefix > 0)
    attend_to(attend<T, HEAD_DIM, MMAS_Q, WARPS, KEYS, STAGES, PAGED, false, false, Breaks>,
              prefix_params(args));
  const Params params = params_of(args);
  attend_to(attend<T, HEAD_DIM, MMAS_Q, WARPS, KEYS, STAGES, PAGED, APPEND, TREE, Breaks>, params);
  if (params.parts == 1) return;
  const int64_t rows = int64_t{params.batches} * params.heads * params.len_q;
  launch(combine<T, Breaks>, static_cast<int>(rows), 32, MOST_SPLITS * 4, params, breaks);
}

// Called by host code: computes O, and LSE if it is wanted, of the problem in `args`.
// (A template, so that it is compiled only where it is used.)
template <class Args>
void decode(const Args& args) {
  const auto with_cache = [&](auto head_dim, auto keys, auto paged, auto append) {
    if (args.breaks != 0) {
      return launch_decode<bf16, head_dim, keys, paged, append, true>(args,
                                                                      RuntimeBreaks{args.breaks});
    }
    const auto with_tree = [&](auto tree) {
      if (args.q.dtype == fa::Dtype::f16) {
        return launch_decode<fa::fp16, head_dim, keys, paged, append, tree>(args, NoBreaks{});
      }
      launch_decode<bf16, head_dim, keys, paged, append, tree>(args, NoBreaks{});
    };
    if (args.tree) return with_tree(std::true_type{});
    with_tree(std::false_type{});
  };
  const auto with_size = [&](auto head_dim, auto keys) {
    const auto with_pages = [&](auto paged) {
      if (args.k_new.data) return with_cache(head_dim, keys, paged, std::true_type{});
      with_cache(head_dim, keys, paged, std::false_type{});
    };
    if (args.table) return with_pages(std::true_type{});
    with_pages(std::false_type{});
  };
  if (args.q.shape[3] <= 64)
    return with_size(std::integral_constant<int, 64>{}, std::integral_constant<int, 32>{});
  with_size(std::integral_constant<int, 128>{}, std::integral_constant<int, 16>{});
}

}  // namespace FA_BACKEND::ch11
