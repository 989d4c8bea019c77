// FlashAttention-2's loop on vector registers, where each lane is a query. Q and O are transposed,
// so 48 queries fill three registers, and a step of online softmax is one vector instruction for 16
// queries. No sum crosses lanes, K and V are read where they are, and no tail needs separate code.
//
//   S.T = K @ Q.T   [keys, lanes]        O.T = V.T @ P.T   [dim, lanes]
//
// Both products use the same micro-kernel. Highway compiles this file once for each instruction set
// and selects one at run time.
//   ch02_tiled_cpu --algorithm fast --shape 1,8,4096,4096,64 --bench
#include "fast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/error.hpp"
#include "common/memory.hpp"
#include "common/parallel.hpp"

// AVX3_DL adds nothing for fp32. A machine that has only SSSE3 uses the scalar fallback. SVE
// vectors have no size at compile time, so Arm machines use NEON.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3_DL | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "chapters/02_tiled_cpu/fast.cpp"
#include <hwy/foreach_target.h>  // includes this file again for every target
#include <hwy/highway.h>

#include "fast_row.hpp"

HWY_BEFORE_NAMESPACE();
namespace ch02 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The register tile has ROWS x VECTORS accumulators, VECTORS operands and one broadcast. That is 28
// of the 32 registers of AVX-512, and all 16 registers of AVX2.
constexpr int ROWS = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 8 : 4;
#define FOR_ROWS HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r)

constexpr int64_t PANELS = 4;  // number of groups of LANES queries that share a KV tile
constexpr int64_t BLOCK_Q = PANELS * LANES;
constexpr int64_t BLOCK_KV = 128;

// [anchor: micro_kernel]
// C = A @ B   [ROWS, LANES]
// Each step of `depth` loads VECTORS registers, broadcasts ROWS numbers and executes ROWS * VECTORS
// multiply-adds. C stays in the registers.
HWY_INLINE void multiply(const float* const (&A)[ROWS], int64_t A_step,  // row r: A[r][i * A_step]
                         const float* B, int64_t depth,                  // [depth, LANES]
                         Row (&C)[ROWS]) {
  FOR_ROWS C[r] = all(0);
  for (int64_t i = 0; i < depth; ++i) {
    const Row b = load(B + i * LANES);
    FOR_ROWS C[r] = multiply_add(all(A[r][i * A_step]), b, C[r]);
  }
}
// [/anchor: micro_kernel]

// LANES queries and their state, transposed.
struct Panel {
  int64_t first_query;
  int64_t visible;      // keys that at least one of the queries sees: [0, visible)
  int64_t all_visible;  // keys that all of the queries see: [0, all_visible)
  float factor;         // scale * log2(e), because the kernel computes powers of 2
  float* Q;             // [dim, LANES]
  float* O;             // [dim rounded up to ROWS, LANES], not yet divided by l
  float* m;             // [LANES], of scores in units of log2
  float* l;             // [LANES]
};

// S.T = factor K @ Q.T for the keys [first, first + count). Returns max(m, rowmax S).
Row score_tile(const Panel& panel, const float* K, int64_t dim, int64_t first, int64_t count,
               int64_t diagonal, float* S, Row m) {
  const bool masked = first + count > panel.all_visible;
  for (int64_t j = 0; j < count; j += ROWS) {
    const float* rows[ROWS];  // past the last key, repeat it, which does not change a maximum
    FOR_ROWS rows[r] = K + (first + std::min(j + r, count - 1)) * dim;
    Row scores[ROWS];
    multiply(rows, 1, panel.Q, dim, scores);
    FOR_ROWS scores[r] = multiply_by(panel.factor, scores[r]);
    if (masked) {  // query i sees key j when j <= i + diagonal
      const int64_t first_lane = first + j - diagonal - panel.first_query;
      FOR_ROWS scores[r] = hide_before(first_lane + r, scores[r]);
    }
    FOR_ROWS m = max(m, scores[r]);
    FOR_ROWS store(scores[r], S + (j + r) * LANES);
  }
  return m;
}

// Computes P = exp2(S - m) in place and returns the row sums.
Row exponentiate(float* S, int64_t count, const Row& m) {
  Row sum = all(0);
  for (int64_t j = 0; j < count; ++j) {
    const Row p = exp2_minus(load(S + j * LANES), m);
    sum = add(sum, p);
    store(p, S + j * LANES);
  }
  return sum;
}

// O.T = O.T * rescale + V.T @ P.T
void add_values(const Panel& panel, const float* V, int64_t dim, int64_t count, const float* P,
                const Row& rescale) {
  for (int64_t d = 0; d < dim; d += ROWS) {
    const float* columns[ROWS];  // past the last row, repeat it, because the result is never read
    FOR_ROWS columns[r] = V + std::min(d + r, dim - 1);
    Row sum[ROWS];
    multiply(columns, dim, P, count, sum);
    float* O = panel.O + d * LANES;
    FOR_ROWS store(multiply_add(load(O + r * LANES), rescale, sum[r]), O + r * LANES);
  }
}

// [anchor: tile]
// Processes one tile of keys for one panel of queries.
void attend(const Panel& panel, const float* K, const float* V, int64_t dim, int64_t first,
            int64_t count, int64_t diagonal, float* S) {
  const Row m_old = load(panel.m);
  const Row m = score_tile(panel, K, dim, first, count, diagonal, S, m_old);  // S = Q @ K.T
  store(m, panel.m);  // m' = max(m, rowmax S)
  // If a query has seen no key, -inf - (-inf) would be NaN, but 2^(-inf - 0) is the correct weight
  // 0.
  const Row m_safe = zero_if_minus_infinity(m);
  const Row rescale = exp2_minus(m_old, m_safe);               // exp(m - m')
  const Row sum = exponentiate(S, count, m_safe);              // P = exp(S - m')
  store(multiply_add(load(panel.l), rescale, sum), panel.l);   // l = l * exp(m - m') + rowsum P
  add_values(panel, V + first * dim, dim, count, S, rescale);  // O = O * exp(m - m') + P @ V
}
// [/anchor: tile]

int64_t O_floats(int64_t dim) { return (dim + ROWS - 1) / ROWS * ROWS * LANES; }
int64_t panel_floats(int64_t dim) { return dim * LANES + O_floats(dim) + 2 * LANES; }

// The memory of one thread, which has the panels of a block, and S of one panel.
int64_t scratch_floats(int64_t dim) { return PANELS * panel_floats(dim) + BLOCK_KV * LANES; }

Panel load_queries(const float* Q, const fa::Shape& shape, float factor, bool causal,
                   int64_t first_query, float* memory) {
  const int64_t last_query = std::min(first_query + LANES, shape.q) - 1;
  float *Q_panel = memory, *O = Q_panel + shape.dim * LANES, *m = O + O_floats(shape.dim);
  for (int64_t lane = 0; lane < LANES; ++lane) {
    const int64_t query = first_query + lane;
    for (int64_t d = 0; d < shape.dim; ++d)
      Q_panel[d * LANES + lane] = query < shape.q ? Q[query * shape.dim + d] : 0.0f;
  }
  std::fill_n(O, O_floats(shape.dim), 0.0f);
  std::fill_n(m, LANES, -kInfinity);
  std::fill_n(m + LANES, LANES, 0.0f);
  return {first_query,
          fa::visible_keys(shape, causal, last_query),
          fa::visible_keys(shape, causal, first_query),
          factor,
          Q_panel,
          O,
          m,
          m + LANES};
}

void store_output(const Panel& panel, const fa::Shape& shape, float* O, float* lse) {
  const int64_t count = std::min(LANES, shape.q - panel.first_query);
  for (int64_t lane = 0; lane < count; ++lane) {
    const int64_t query = panel.first_query + lane;
    const float m = panel.m[lane], l = panel.l[lane];
    const bool sees_a_key = m != -kInfinity;
    const float inverse = sees_a_key ? 1.0f / l : 0.0f;
    for (int64_t d = 0; d < shape.dim; ++d)
      O[query * shape.dim + d] = panel.O[d * LANES + lane] * inverse;
    if (lse) lse[query] = sees_a_key ? static_cast<float>(m * std::log(2.0) + std::log(l)) : m;
  }
}

// [anchor: block]
// Computes BLOCK_Q queries of one head with all keys that they see.
void attend_block(const float* Q, const float* K, const float* V, float* O, float* lse,
                  const fa::Shape& shape, double scale, bool causal, int64_t q_block,
                  float* scratch) {
  const float factor = static_cast<float>(scale / std::log(2.0));  // exp(x) = 2^(x * log2(e))
  const int64_t begin = q_block * BLOCK_Q, end = std::min(begin + BLOCK_Q, shape.q);
  float* const S = scratch + PANELS * panel_floats(shape.dim);
  Panel panels[PANELS];
  int num_panels = 0;
  for (int64_t query = begin; query < end; query += LANES, ++num_panels) {
    float* const memory = scratch + num_panels * panel_floats(shape.dim);
    panels[num_panels] = load_queries(Q, shape, factor, causal, query, memory);
  }
  const int64_t visible = panels[num_panels - 1].visible;  // skip hidden tiles
  for (int64_t first = 0; first < visible; first += BLOCK_KV) {
    for (int p = 0; p < num_panels; ++p) {
      const int64_t count = std::min(BLOCK_KV, panels[p].visible - first);
      if (count > 0) attend(panels[p], K, V, shape.dim, first, count, shape.kv - shape.q, S);
    }
  }
  for (int p = 0; p < num_panels; ++p) store_output(panels[p], shape, O, lse);
}
// [/anchor: block]

int64_t queries_per_block() { return BLOCK_Q; }

void exp2_all(const float* x, float* y, int64_t count) {
  HWY_ALIGN float buffer[VECTOR];
  for (int64_t i = 0; i < count; i += VECTOR) {
    const int64_t n = std::min(VECTOR, count - i);
    std::copy_n(x + i, n, buffer);
    hn::Store(exp2(hn::Load(f32, buffer)), f32, buffer);
    std::copy_n(buffer, n, y + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ch02
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ch02 {

HWY_EXPORT(attend_block);
HWY_EXPORT(queries_per_block);
HWY_EXPORT(scratch_floats);
HWY_EXPORT(exp2_all);

int64_t fast_scratch_bytes(int64_t dim) {
  return HWY_DYNAMIC_DISPATCH(scratch_floats)(dim) * sizeof(float);
}

void fast_attention(const float* q, const float* k, const float* v, float* o, float* lse,
                    const fa::Shape& shape, double scale, bool causal, int threads) {
  if (threads <= 0) threads = fa::hardware_threads();
  // Starting a thread takes as long as about 6 million operations. With n threads the time is work
  // / n + n * start, which is smallest at n = sqrt(work / start).
  threads = std::min(threads, 1 + static_cast<int>(std::min(std::sqrt(shape.flops() / 6e6), 1e6)));
  const int64_t block_q = HWY_DYNAMIC_DISPATCH(queries_per_block)();
  const int64_t q_blocks = (shape.q + block_q - 1) / block_q;
  const int64_t blocks = shape.batch * shape.heads * q_blocks;
  threads = static_cast<int>(std::min<int64_t>(threads, blocks));
  const int64_t own = HWY_DYNAMIC_DISPATCH(scratch_floats)(shape.dim);
  fa::counted_vector<float> scratch(threads * own);
  fa::parallel_for(blocks, threads, [&](int64_t index, int thread) {
    const int64_t head = index / q_blocks;
    const int64_t q_block = q_blocks - 1 - index % q_blocks;  // causal: longest first
    const int64_t q_offset = head * shape.q * shape.dim, kv_offset = head * shape.kv * shape.dim;
    HWY_DYNAMIC_DISPATCH(attend_block)
    (q + q_offset, k + kv_offset, v + kv_offset, o + q_offset, lse ? lse + head * shape.q : nullptr,
     shape, scale, causal, q_block, scratch.data() + thread * own);
  });
}

void fast_exp2(std::span<const float> x, std::span<float> y) {
  HWY_DYNAMIC_DISPATCH(exp2_all)(x.data(), y.data(), static_cast<int64_t>(x.size()));
}

std::vector<std::string> fast_targets() {
  std::vector<std::string> names;
  for (int64_t targets = hwy::SupportedTargets() & (HWY_TARGETS); targets; targets &= targets - 1)
    names.push_back(hwy::TargetName(targets & -targets));
  return names;
}

std::string fast_target_name() { return fast_targets().front(); }

void force_fast_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  int64_t chosen = 0;
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t targets = supported & (HWY_TARGETS); targets; targets &= targets - 1)
    if (name == hwy::TargetName(targets & -targets)) chosen = targets & -targets;
  if (!name.empty() && !chosen)
    throw fa::InputError("no vector target " + name + " here; this machine has " +
                         fast_targets().front());
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(chosen ? chosen : supported);
}

}  // namespace ch02
#endif  // HWY_ONCE
