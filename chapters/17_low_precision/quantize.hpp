#pragma once
// Converts Q and K to 8 bits, so that each element becomes a multiple n of its group's scale, |n|
// <= 127.

#include "chapters/17_low_precision/params.hpp"

namespace FA_BACKEND::ch17 {

constexpr int QUANTIZE_THREADS = 128;
constexpr float LARGEST_INT8 = 127.0f;

// Returns the factor for a group's elements before rounding. The scale is its inverse. It is finite
// even if all of them are tiny or 0.
FA_DEVICE float inverse_scale(float largest) {
  constexpr float MOST = 0x1p120f;
  const float inverse = LARGEST_INT8 / largest;
  return inverse > MOST ? MOST : inverse;  // NaN stays NaN
}

struct alignas(16) FourWords {
  uint32_t word[4];
};
struct alignas(16) FourFloats {
  float value[4];
};
struct alignas(8) TwoWords {
  uint32_t word[2];
};

// Eight adjacent elements of a row. HEAD_DIM / 8 lanes share a row, and the block's threads hold
// several rows, each thread always the same columns.
template <int HEAD_DIM>
struct Eight {
  static constexpr int LANES = HEAD_DIM / 8;
  static constexpr int ROWS = QUANTIZE_THREADS / LANES;  // rows that the block's threads hold at a
                                                         // time
  static_assert(ROWS % 8 == 0, "all rows of a thread are alike modulo 8");
  float value[8];

  FA_DEVICE static int row() { return thread_index() / LANES; }
  FA_DEVICE static int column() { return thread_index() % LANES * 8; }
  FA_DEVICE static Eight load(const bf16* row) {
    const auto words = load_global(reinterpret_cast<const FourWords*>(row + column()));
    Eight eight;
    FA_UNROLL
    for (int i = 0; i < 4; ++i) {
      eight.value[2 * i] = unpack_low<bf16>(words.word[i]);
      eight.value[2 * i + 1] = unpack_high<bf16>(words.word[i]);
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

// Computes the sums of each channel over CHUNK keys.
template <int HEAD_DIM>
FA_KERNEL FA_LAUNCH_BOUNDS(QUANTIZE_THREADS, 1)
void sum_keys(const bf16* K, float* sums, int len_kv) {
  using Row = Eight<HEAD_DIM>;
  const auto [head, chunk, unused] = block_index_3d();
  const int first = chunk * CHUNK, end = first + CHUNK < len_kv ? first + CHUNK : len_kv;
  float sum[8] = {};
  for (int key = first + Row::row(); key < end; key += Row::ROWS) {
    const auto row = Row::load(K + (int64_t{head} * len_kv + key) * HEAD_DIM);
    for (int i = 0; i < 8; ++i) sum[i] += row.value[i];
  }
  const uint32_t smem = dynamic_smem();  // [Row::ROWS][HEAD_DIM]
  for (int i = 0; i < 8; ++i)
    store_shared<float>(smem + (Row::row() * HEAD_DIM + Row::column() + i) * 4, sum[i]);
  block_sync();  // all threads have stored their sums
  if (thread_index() >= HEAD_DIM) return;
  float total = 0;
  for (int row = 0; row < Row::ROWS; ++row)
    total += load_shared<float>(smem + (row * HEAD_DIM + thread_index()) * 4);
  store_global(sums + (int64_t{head} * grid_size().y + chunk) * HEAD_DIM + thread_index(), total);
}

template <int HEAD_DIM>
FA_KERNEL FA_LAUNCH_BOUNDS(HEAD_DIM, 1)
void mean_of_sums(const float* sums, float* mean, int chunks, int len_kv) {
  sums += int64_t{block_index()} * chunks * HEAD_DIM + thread_index();
  float total = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) total += load_global(sums + chunk * HEAD_DIM);
  store_global(mean + int64_t{block_index()} * HEAD_DIM + thread_index(),
               total / static_cast<float>(len_kv));
}

template <int HEAD_DIM>
void launch_mean(const bf16* K, const Workspace& w, int len_kv, int64_t heads) {
  const LaunchConfig config{.grid = grid_of(heads, len_kv, CHUNK),
                            .block = {QUANTIZE_THREADS},
                            .smem_bytes = Eight<HEAD_DIM>::ROWS * HEAD_DIM * sizeof(float)};
  launch(sum_keys<HEAD_DIM>, config, K, w.K_sums, len_kv);
  launch(mean_of_sums<HEAD_DIM>, static_cast<int>(heads), HEAD_DIM, 0, w.K_sums, w.K_mean,
         config.grid.y, len_kv);
}

enum class Operand { Q, K };

struct QuantizeParams {
  const bf16* from;  // [heads, rows, HEAD_DIM]
  Quantized to;
  float* largest;       // [heads, tiles]: max |x| of a tile
  const float* K_mean;  // [heads / group, HEAD_DIM]; null if K keeps it
  int group;
  float* LSE_offset;  // for Q: [heads, rows], scale q . mean of K; null if not wanted
  float scale;
  int scales;  // the part that shares a scale
};

// Returns the larger value, or NaN if there is one, which max would drop.
FA_DEVICE float larger(float a, float b) { return a > b || a != a ? a : b; }

// Returns max |x|, or NaN if there is a NaN or an Inf.
FA_DEVICE float largest_of(const float (&values)[8]) {
  float largest = 0, zero = 0;
  FA_UNROLL
  for (const float value : values) {
    largest = max(largest, value < 0 ? -value : value);
    zero = fma(value, 0.0f, zero);
  }
  return largest + zero;
}

// A block quantizes a tile of rows, which are a warp's queries, or the keys that the kernel loads
// at a time. With MEASURE it only stores the largest element, for scales of more than a tile.
template <int HEAD_DIM, Operand OPERAND, bool MEASURE>
FA_KERNEL FA_LAUNCH_BOUNDS(QUANTIZE_THREADS, 1)
void quantize(const QuantizeParams p) {
  using Row = Eight<HEAD_DIM>;
  constexpr Groups GROUPS = OPERAND == Operand::Q ? Q_GROUPS : k_groups(HEAD_DIM);
  constexpr int ROWS = GROUPS.tile / Row::ROWS;  // rows per thread
  static_assert(GROUPS.tile % Row::ROWS == 0, "each thread has equally many rows");
  const auto [head, tile, unused] = block_index_3d();
  const int tiles = grid_size().y;
  const int first = tile * GROUPS.tile, rows_left = p.to.rows - first;
  const int64_t first_row = int64_t{head} * p.to.rows + first;

  // [anchor: smooth]
  float mean[8] = {};
  if (p.K_mean != nullptr && (OPERAND == Operand::K || p.LSE_offset != nullptr)) {
    const int kv_head = OPERAND == Operand::K ? head : head / p.group;
    const float* const own = p.K_mean + kv_head * HEAD_DIM + Row::column();
    const auto* const fours = reinterpret_cast<const FourFloats*>(own);
    FA_UNROLL
    for (int i = 0; i < 2; ++i) {
      const FourFloats four = load_global(fours + i);
      for (int j = 0; j < 4; ++j) mean[i * 4 + j] = four.value[j];
    }
  }
  Row rows[ROWS] = {};
  float largest = 0;
  FA_UNROLL
  for (int i = 0; i < ROWS; ++i) {
    const int row = Row::row() + i * Row::ROWS;
    if (row >= rows_left) continue;
    rows[i] = Row::load(p.from + (first_row + row) * HEAD_DIM);
    if (OPERAND == Operand::K)
      for (int d = 0; d < 8; ++d) rows[i].value[d] -= mean[d];
    largest = larger(largest, largest_of(rows[i].value));
  }
  // [/anchor: smooth]

  // [anchor: group_scale]
  // The threads of a group exchange the largest element of the group.
  if (!MEASURE && p.scales <= PER_BLOCK) {  // a scale covers more than this tile
    constexpr int IN_BLOCK = OPERAND == Operand::Q ? BLOCK_Q / WARP_Q : 1;
    int begin = tile / IN_BLOCK * IN_BLOCK,
        end = begin + IN_BLOCK < tiles ? begin + IN_BLOCK : tiles;
    if (p.scales == PER_HEAD) begin = 0, end = tiles;
    for (int i = begin + thread_index(); i < end; i += QUANTIZE_THREADS)
      largest = larger(largest, load_global(p.largest + int64_t{head} * tiles + i));
  }
  largest = Row::reduce(largest, larger);
  const uint32_t smem = dynamic_smem();  // [Row::ROWS]
  if (Row::column() == 0) store_shared<float>(smem + Row::row() * 4, largest);
  block_sync();  // all rows have been read
  const int number = Row::row() % 8 / GROUPS.alike;
  for (int row = 0; row < Row::ROWS; ++row)
    if (MEASURE || p.scales < PER_THREAD || row % 8 / GROUPS.alike == number)
      largest = larger(largest, load_shared<float>(smem + row * 4));
  if (MEASURE) {
    if (thread_index() == 0) store_global(p.largest + int64_t{head} * tiles + tile, largest);
    return;
  }
  if (Row::column() == 0 && Row::row() < 8 && Row::row() % GROUPS.alike == 0) {
    store_global(p.to.scales + (int64_t{head} * tiles + tile) * GROUPS.of_a_tile + number,
                 1.0f / inverse_scale(largest));
  }
  // [/anchor: group_scale]

  // [anchor: round]
  const float inverse = inverse_scale(largest);
  FA_UNROLL
  for (int i = 0; i < ROWS; ++i) {
    const int row = Row::row() + i * Row::ROWS;
    TwoWords packed = {};
    for (int d = 0; d < 8; ++d) {
      const int n = round_to_int(rows[i].value[d] * inverse);
      packed.word[d / 4] |= (static_cast<uint32_t>(n) & 0xffu) << d % 4 * 8;
    }
    int8_t* const to = p.to.numbers + (first_row + row) * HEAD_DIM + Row::column();
    if (row < rows_left) store_global(reinterpret_cast<TwoWords*>(to), packed);
  }
  // [/anchor: round]

  // [anchor: lse_offset]
  // K lost its mean, which changes all scores of a row by the same number. Softmax does not depend
  // on it, but the log-sum-exp does.
  if (p.LSE_offset == nullptr) return;
  FA_UNROLL
  for (int i = 0; i < ROWS; ++i) {
    float product = 0;
    for (int d = 0; d < 8; ++d) product = fma(rows[i].value[d], mean[d], product);
    product = Row::reduce(product, [](float a, float b) { return a + b; });
    const int row = Row::row() + i * Row::ROWS;
    if (row < rows_left && Row::column() == 0)
      store_global(p.LSE_offset + first_row + row, product * p.scale);
  }
  // [/anchor: lse_offset]
}

// Launches the kernels that fill `to`.
template <int HEAD_DIM, Operand OPERAND>
void launch_quantize(const QuantizeParams& params, int64_t heads) {
  const Groups groups = OPERAND == Operand::Q ? Q_GROUPS : k_groups(HEAD_DIM);
  const LaunchConfig config{.grid = grid_of(heads, params.to.rows, groups.tile),
                            .block = {QUANTIZE_THREADS},
                            .smem_bytes = Eight<HEAD_DIM>::ROWS * sizeof(float)};
  if (params.scales <= PER_BLOCK) launch(quantize<HEAD_DIM, OPERAND, true>, config, params);
  launch(quantize<HEAD_DIM, OPERAND, false>, config, params);
}

}  // namespace FA_BACKEND::ch17
