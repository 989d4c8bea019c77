#pragma once
// Converts Q, K and V to e4m3. K and V lose their means, and V is transposed.

#include "chapters/23_fp8/order.hpp"
#include "chapters/23_fp8/params.hpp"

namespace FA_BACKEND::ch23 {

constexpr int QUANTIZE_THREADS = 256;

struct alignas(16) Chunk {
  uint32_t word[4];
};
struct alignas(16) FourFloats {
  float value[4];
};
struct alignas(8) TwoWords {
  uint32_t word[2];
};

// Returns the factor for values of magnitude up to `largest` before rounding. The scale is its
// inverse. It is finite even if all values are tiny or 0.
FA_DEVICE float inverse_scale(float largest) {
  constexpr float MOST = 0x1p120f;
  const float inverse = fa::kLargestE4m3 / largest;
  return inverse > MOST ? MOST : inverse;  // NaN stays NaN
}

// Returns the larger value, or NaN if there is one, which max would drop.
FA_DEVICE float larger(float a, float b) { return a > b || a != a ? a : b; }

// Eight adjacent elements of a row. HEAD_DIM / 8 lanes share a row, and the block's threads hold
// several rows.
template <int HEAD_DIM>
struct Eight {
  static constexpr int LANES = HEAD_DIM / 8;
  static constexpr int ROWS = QUANTIZE_THREADS / LANES;  // rows that the block's threads hold at a
                                                         // time
  float value[8];

  FA_DEVICE static int row() { return thread_index() / LANES; }
  FA_DEVICE static int column() { return thread_index() % LANES * 8; }
  FA_DEVICE static Chunk load_chunk(const bf16* row) {
    return load_global(reinterpret_cast<const Chunk*>(row + column()));
  }
  FA_DEVICE static Eight load(const bf16* row) { return unpacked(load_chunk(row)); }
  FA_DEVICE static Eight unpacked(const Chunk& chunk) {
    Eight eight;
    FA_UNROLL
    for (int i = 0; i < 4; ++i) {
      eight.value[2 * i] = unpack_low<bf16>(chunk.word[i]);
      eight.value[2 * i + 1] = unpack_high<bf16>(chunk.word[i]);
    }
    return eight;
  }
  // Loads this thread's columns of an fp32 row.
  FA_DEVICE static Eight load(const float* row) {
    Eight eight;
    FA_UNROLL
    for (int i = 0; i < 2; ++i) {
      const auto four = load_global(reinterpret_cast<const FourFloats*>(row + column()) + i);
      for (int j = 0; j < 4; ++j) eight.value[i * 4 + j] = four.value[j];
    }
    return eight;
  }
  // Combines the values of the lanes that share a row.
  template <class Combine>
  FA_DEVICE static float reduce(float value, Combine combine) {
    for (int distance = 1; distance < LANES; distance *= 2)
      value = combine(value, shfl_xor(value, distance));
    return value;
  }
};

FA_DEVICE float sum_of(float a, float b) { return a + b; }

// Computes sum, minimum and maximum of each column of CHUNK rows, of K and then of V. K may lose
// any row, so of many keys, every K_STEP-th is enough for its mean. V's scale needs all.
template <int HEAD_DIM>
FA_KERNEL FA_LAUNCH_BOUNDS(QUANTIZE_THREADS, 1)
void measure_columns(const bf16* K, const bf16* V, float* column_sums, int len_kv) {
  using Row = Eight<HEAD_DIM>;
  const auto [head, chunk, of_V] = block_index_3d();
  const int first = chunk * CHUNK, end = first + CHUNK < len_kv ? first + CHUNK : len_kv;
  const int step = of_V ? 1 : step_of_K(len_kv);
  float sum[8] = {}, least[8], largest[8];
  for (int i = 0; i < 8; ++i) least[i] = -NEG_INF, largest[i] = NEG_INF;
  constexpr int LOADS = 4;  // in flight
  for (int next = first + Row::row() * step; next < end; next += LOADS * Row::ROWS * step) {
    Row rows[LOADS];
    FA_UNROLL
    for (int j = 0; j < LOADS; ++j) {
      const int key = next + j * Row::ROWS * step;
      rows[j] = Row::load((of_V ? V : K) +
                          (int64_t{head} * len_kv + (key < end ? key : next)) * HEAD_DIM);
    }
    FA_UNROLL
    for (int j = 0; j < LOADS; ++j)
      for (int i = 0; i < 8 && next + j * Row::ROWS * step < end; ++i) {
        const float x = rows[j].value[i];
        sum[i] += x;
        least[i] = -max(-least[i], -x);
        largest[i] = max(largest[i], x);
      }
  }
  const uint32_t smem = dynamic_smem();  // [3][Row::ROWS][HEAD_DIM]
  const auto place = [&](int what, int row, int column) {
    return smem + ((what * Row::ROWS + row) * HEAD_DIM + column) * 4;
  };
  for (int i = 0; i < 8; ++i) {
    store_shared<float>(place(0, Row::row(), Row::column() + i), sum[i]);
    store_shared<float>(place(1, Row::row(), Row::column() + i), least[i]);
    store_shared<float>(place(2, Row::row(), Row::column() + i), largest[i]);
  }
  block_sync();  // all threads have stored their values
  const int column = thread_index();
  if (column >= HEAD_DIM) return;
  float total[3] = {0, -NEG_INF, NEG_INF};
  for (int row = 0; row < Row::ROWS; ++row) {
    total[0] += load_shared<float>(place(0, row, column));
    total[1] = -max(-total[1], -load_shared<float>(place(1, row, column)));
    total[2] = max(total[2], load_shared<float>(place(2, row, column)));
  }
  float* const to =
      column_sums + ((int64_t{of_V} * grid_size().x + head) * grid_size().y + chunk) * 3 * HEAD_DIM;
  for (int what = 0; what < 3; ++what) store_global(to + what * HEAD_DIM + column, total[what]);
}

struct Means {
  float *K_mean, *V_mean, *V_scales;
  bool keep;  // leaves both unchanged
  int* claimed;
};

// One block per head of K, then per head of V, with one thread per column.
template <int HEAD_DIM>
FA_KERNEL FA_LAUNCH_BOUNDS(HEAD_DIM, 1)
void finish_columns(const float* column_sums, const Means to, int chunks, int len_kv, int heads) {
  const int head = block_index() % heads, column = thread_index();
  if (block_index() == 0 && column == 0) store_global(to.claimed, 0);
  const float* const from = column_sums + int64_t{block_index()} * chunks * 3 * HEAD_DIM + column;
  float sum = 0, least = -NEG_INF, largest = NEG_INF;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    sum += load_global(from + chunk * 3 * HEAD_DIM);
    least = -max(-least, -load_global(from + (chunk * 3 + 1) * HEAD_DIM));
    largest = max(largest, load_global(from + (chunk * 3 + 2) * HEAD_DIM));
  }
  const int step = block_index() < heads ? step_of_K(len_kv) : 1;
  const float mean = to.keep ? 0.0f : sum / static_cast<float>(ceil_div(len_kv, step));
  const float lost = sum * 0.0f;  // NaN for a NaN or an Inf
  store_global((block_index() < heads ? to.K_mean : to.V_mean) + head * HEAD_DIM + column, mean);
  if (block_index() < heads) return;
  store_global(to.V_scales + head * HEAD_DIM + column,
               1.0f / inverse_scale(max(largest - mean, mean - least) + lost));
}

enum class Operand { Q, K };

struct QuantizeParams {
  const bf16* from;  // [heads, rows, HEAD_DIM]
  e4m3* to;          // same shape
  Facts* facts;      // [heads, tiles]
  int rows;
  const float* K_mean;  // [heads / group, HEAD_DIM]
  int group;
  float* LSE_offset;  // for Q: [heads, rows], scale q . mean of K; null: not wanted
  float scale;
};

// A block quantizes a tile of rows, which are a warpgroup's queries, or the keys that the kernel
// loads at a time.
template <int HEAD_DIM, Operand OPERAND>
FA_KERNEL FA_LAUNCH_BOUNDS(QUANTIZE_THREADS, 4)
void quantize_rows(const QuantizeParams p) {
  using Row = Eight<HEAD_DIM>;
  constexpr int TILE = OPERAND == Operand::Q ? WARPGROUP_Q : BLOCK_KV;
  constexpr int ROWS = TILE / Row::ROWS;  // rows per thread
  static_assert(TILE % Row::ROWS == 0, "each thread has equally many rows");
  const auto [head, tile, unused] = block_index_3d();
  const int first = tile * TILE, rows_left = p.rows - first;
  const int64_t first_row = int64_t{head} * p.rows + first;

  Row mean = {};
  if (OPERAND == Operand::K || p.LSE_offset != nullptr)
    mean = Row::load(p.K_mean + (OPERAND == Operand::K ? head : head / p.group) * HEAD_DIM);
  // The rows stay in 16 bits until they are rounded, which leaves registers for more blocks.
  Chunk chunks[ROWS] = {};
  FA_UNROLL
  for (int i = 0; i < ROWS; ++i) {
    const int row = Row::row() + i * Row::ROWS;
    if (row < rows_left) chunks[i] = Row::load_chunk(p.from + (first_row + row) * HEAD_DIM);
  }
  const auto centered = [&](int i) {
    Row row = Row::unpacked(chunks[i]);
    for (int d = 0; d < 8 && OPERAND == Operand::K; ++d)
      if (Row::row() + i * Row::ROWS < rows_left) row.value[d] -= mean.value[d];
    return row;
  };
  float largest = 0, squared_norm = 0;
  FA_UNROLL
  for (int i = 0; i < ROWS; ++i) {
    const int row = Row::row() + i * Row::ROWS;
    const Row values = centered(i);
    float squares = 0, product = 0, zero = 0, most = 0;
    FA_UNROLL
    for (int d = 0; d < 8; ++d) {
      const float x = values.value[d];
      if (OPERAND == Operand::Q) product = fma(x, mean.value[d], product);
      squares = fma(x, x, squares);
      zero = fma(x, 0.0f, zero);         // NaN if there is a NaN or an Inf
      most = max(most, x < 0 ? -x : x);  // drops a NaN
    }
    largest = larger(largest, most + zero);
    squared_norm = larger(squared_norm, Row::reduce(squares, sum_of));
    // K lost its mean, which changes all scores of a row by the same number. Softmax does not
    // depend on it, but the log-sum-exp does.
    if (OPERAND == Operand::Q && p.LSE_offset != nullptr) {
      product = Row::reduce(product, sum_of);
      if (row < rows_left && Row::column() == 0)
        store_global(p.LSE_offset + first_row + row, product * p.scale);
    }
  }

  // Combines the results of all threads of the block.
  largest = Row::reduce(largest, larger);
  const uint32_t smem = dynamic_smem();  // [2][Row::ROWS]
  if (Row::column() == 0) {
    store_shared<float>(smem + Row::row() * 4, largest);
    store_shared<float>(smem + (Row::ROWS + Row::row()) * 4, squared_norm);
  }
  block_sync();  // all rows have been read
  for (int row = 0; row < Row::ROWS; row += 4) {
    const auto four = load_shared<FourFloats>(smem + row * 4);
    for (const float value : four.value) largest = larger(largest, value);
  }
  const float inverse = inverse_scale(largest);
  if (thread_index() == 0) {
    for (int row = 0; row < Row::ROWS; row += 4) {
      const auto squares = load_shared<FourFloats>(smem + (Row::ROWS + row) * 4);
      for (const float value : squares.value) squared_norm = larger(squared_norm, value);
    }
    // The squares of tiny values are 0 in fp32. Rounding increases a value by up to 1/16.
    constexpr float SQRT_DIM = HEAD_DIM == 64 ? 8.0f : 11.32f;
    const float norm =
        squared_norm < 0x1p-100f ? largest * SQRT_DIM : sqrt(squared_norm);  // NaN stays NaN
    store_global(p.facts + int64_t{head} * grid_size().y + tile,
                 Facts{1.0f / inverse, norm * 1.07f});
  }

  FA_UNROLL
  for (int i = 0; i < ROWS; ++i) {
    const int row = Row::row() + i * Row::ROWS;
    for (uint32_t& word : chunks[i].word)
      word = static_cast<uint32_t>(opaque(static_cast<int>(word)));
    const Row values = centered(i);
    const float(&x)[8] = values.value;
    TwoWords packed;
    FA_UNROLL
    for (int j = 0; j < 2; ++j)
      packed.word[j] = pack_e4m3x4(x[4 * j] * inverse, x[4 * j + 1] * inverse,
                                   x[4 * j + 2] * inverse, x[4 * j + 3] * inverse);
    e4m3* const to = p.to + (first_row + row) * HEAD_DIM + Row::column();
    if (row < rows_left) store_global(reinterpret_cast<TwoWords*>(to), packed);
  }
}

// V [heads, len_kv, HEAD_DIM] becomes [heads, HEAD_DIM, padded], without its mean, with its keys in
// the order of the slots and zeros after the last. A block transposes the tile that the kernel
// loads at a time.
// [anchor: turn]
template <int HEAD_DIM>
FA_KERNEL FA_LAUNCH_BOUNDS(QUANTIZE_THREADS, 3)
void turn_values(const bf16* V, e4m3* to, const float* V_mean, const float* V_scales, int len_kv,
                 bool in_order) {
  using Row = Eight<HEAD_DIM>;
  constexpr int CHUNKS = BLOCK_KV / 16;  // 16-byte chunks per column of the tile
  const auto [head, from_end, unused] = block_index_3d();
  // Begins with the keys that measure_columns has read last, because L2 still has them.
  const int tile = grid_size().y - 1 - from_end;
  const uint32_t smem = dynamic_smem();  // [HEAD_DIM][8 chunks]
  // A thread's columns are 8 apart from its neighbour's. Without the XOR all lanes would access the
  // same bank.
  const auto place = [&](int column, int chunk) {
    return smem + column * 128 + (chunk ^ column / 8 % 8) * 16;
  };
  Row mean = Row::load(V_mean + head * HEAD_DIM), inverse = Row::load(V_scales + head * HEAD_DIM);
  for (float& scale : inverse.value) scale = 1.0f / scale;
  constexpr int ROUNDS = BLOCK_KV / (4 * Row::ROWS);
  Chunk chunks[ROUNDS][4] = {};  // the keys of four consecutive slots, all in flight
  const auto key_of = [&](int round, int i) {
    const int slot = (round * Row::ROWS + Row::row()) * 4 + i;
    return tile * BLOCK_KV + (in_order ? slot : key_of_slot(slot));
  };
  FA_UNROLL
  for (int round = 0; round < ROUNDS; ++round)
    for (int i = 0; i < 4; ++i)
      if (key_of(round, i) < len_kv)
        chunks[round][i] =
            Row::load_chunk(V + (int64_t{head} * len_kv + key_of(round, i)) * HEAD_DIM);
  FA_UNROLL
  for (int round = 0; round < ROUNDS; ++round) {
    Row rows[4] = {};
    FA_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (key_of(round, i) >= len_kv) continue;
      rows[i] = Row::unpacked(chunks[round][i]);
      for (int d = 0; d < 8; ++d)
        rows[i].value[d] = (rows[i].value[d] - mean.value[d]) * inverse.value[d];
    }
    const int slots = (round * Row::ROWS + Row::row()) * 4;
    FA_UNROLL
    for (int d = 0; d < 8; ++d)
      store_shared<uint32_t>(
          place(Row::column() + d, slots / 16) + slots % 16,
          pack_e4m3x4(rows[0].value[d], rows[1].value[d], rows[2].value[d], rows[3].value[d]));
  }
  block_sync();  // the whole tile has been transposed
  for (int i = thread_index(); i < HEAD_DIM * CHUNKS; i += QUANTIZE_THREADS) {
    const int column = i / CHUNKS, chunk = i % CHUNKS;
    e4m3* const row = to + (int64_t{head} * HEAD_DIM + column) * padded(len_kv);
    store_global(reinterpret_cast<Chunk*>(row + tile * BLOCK_KV) + chunk,
                 load_shared<Chunk>(place(column, chunk)));
  }
}
// [/anchor: turn]

}  // namespace FA_BACKEND::ch23
