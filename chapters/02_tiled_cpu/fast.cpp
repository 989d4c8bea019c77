// FlashAttention-2's loop on vector registers. The idea: a lane is a query. With Q and O transposed,
// 48 queries stand side by side in three registers, and every step of online softmax is one vector
// instruction for 16 of them: no sum across lanes, K and V read where they lie, no tail to treat.
//
//   S.T [keys, lanes] = K @ Q.T        O.T [dim, lanes] = V.T @ P.T        one micro-kernel for both
//
// Highway compiles this file once for each instruction set and picks one at run time.
//   ch02_tiled_cpu --algorithm fast --shape 1,8,4096,4096,64 --bench
#include "fast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/error.hpp"
#include "common/memory.hpp"
#include "common/parallel.hpp"

// AVX3_DL adds nothing for fp32; a machine of SSSE3 alone takes the scalar fallback. SVE vectors
// have no size at compile time, so Arm machines take NEON.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3_DL | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "chapters/02_tiled_cpu/fast.cpp"
#include <hwy/foreach_target.h>  // includes this file again for every target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ch02 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr Floats f32;
constexpr int64_t VECTOR = hn::MaxLanes(f32);  // floats in a register: 16 with AVX-512, 8 with AVX2

// The register tile: ROWS x VECTORS accumulators, VECTORS operands and one broadcast: 28 of AVX-512's
// 32 registers, all of AVX2's 16.
constexpr int ROWS = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 8 : 4;
constexpr int VECTORS = 3;
constexpr int64_t LANES = VECTORS * VECTOR;     // queries side by side
constexpr int64_t PANELS = 4;                   // groups of LANES queries that share a KV tile
constexpr int64_t BLOCK_Q = PANELS * LANES;
constexpr int64_t BLOCK_KV = 128;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// [anchor: exp2]
// 2^x = 2^n * 2^f, n the integer nearest to x, f in [-1/2, 1/2].
HWY_INLINE Vector exp2(Vector x) {
  const hn::RebindToSigned<Floats> i32;
  // Adding 1.5 * 2^23 pushes the fraction off the end of the mantissa: its low bits are n.
  const Vector magic = hn::Set(f32, 12582912.0f);
  const Vector shifted = hn::Add(x, magic);
  const Vector f = hn::Sub(x, hn::Sub(shifted, magic));
  Vector power = hn::Set(f32, 1.32647285e-3f);  // a polynomial, exact at 0, relative error 9.1e-8
  power = hn::MulAdd(power, f, hn::Set(f32, 9.67151299e-3f));
  power = hn::MulAdd(power, f, hn::Set(f32, 5.55073358e-2f));
  power = hn::MulAdd(power, f, hn::Set(f32, 2.40222464e-1f));
  power = hn::MulAdd(power, f, hn::Set(f32, 6.93147004e-1f));
  power = hn::MulAdd(power, f, hn::Set(f32, 1.0f));
  // n is added to the exponent field, which starts at bit 23.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(i32, shifted));
  const Vector result = hn::BitCast(f32, hn::Add(hn::BitCast(i32, power), exponent));
  // Too small for a normal number, -inf too: 0. A select, so that no NaN on the way gets through.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(f32, -126.0f)), result);
}
// [/anchor: exp2]

// [anchor: micro_kernel]
// C = A @ B   [ROWS, LANES]: per step of `depth`, VECTORS loads and ROWS broadcasts feed
// ROWS * VECTORS multiply-adds, and C never leaves the registers.
HWY_INLINE void multiply(const float* const (&A)[ROWS], int64_t A_step,  // row r: A[r][i * A_step]
                         const float* B, int64_t depth,                  // [depth, LANES]
                         Vector (&C)[ROWS][VECTORS]) {
  HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r)
    HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) C[r][c] = hn::Zero(f32);
  for (int64_t i = 0; i < depth; ++i) {
    Vector b[VECTORS];
    HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) b[c] = hn::Load(f32, B + i * LANES + c * VECTOR);
    HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r) {
      const Vector a = hn::Set(f32, A[r][i * A_step]);
      HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) C[r][c] = hn::MulAdd(a, b[c], C[r][c]);
    }
  }
}
// [/anchor: micro_kernel]

// LANES queries and their state.
struct Panel {
  int64_t first_query;
  int64_t visible;       // keys that at least one of its queries sees: [0, visible)
  int64_t all_visible;   // keys that all of them see
  float* Q;              // [dim, LANES], times scale * log2(e)
  float* O;              // [dim rounded up to ROWS, LANES], not yet divided by l
  float* m;              // [LANES], of scores in units of log2
  float* l;              // [LANES]
};

// Hides key j from the queries before it: lane i sees it when j <= first_query + i + diagonal.
HWY_INLINE void hide_future(const Panel& panel, int64_t first_key, int64_t diagonal,
                            Vector (&S)[ROWS][VECTORS]) {
  HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r) {
    const int64_t first_lane = first_key + r - diagonal - panel.first_query;
    HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) {
      const Vector lane = hn::Iota(f32, static_cast<float>(c * VECTOR));
      const auto sees_it = hn::Ge(lane, hn::Set(f32, static_cast<float>(first_lane)));
      S[r][c] = hn::IfThenElse(sees_it, S[r][c], hn::Set(f32, -kInfinity));
    }
  }
}

// S.T = K @ Q.T of the keys [first, first + count), and m' = max(m, rowmax S).
void score_tile(const Panel& panel, const float* K, int64_t dim, int64_t first, int64_t count,
                int64_t diagonal, float* S, Vector (&m)[VECTORS]) {
  const bool masked = first + count > panel.all_visible;
  for (int64_t j = 0; j < count; j += ROWS) {
    const float* rows[ROWS];  // past the last key: the last once more, which changes no maximum
    HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r)
      rows[r] = K + (first + std::min(j + r, count - 1)) * dim;
    Vector scores[ROWS][VECTORS];
    multiply(rows, 1, panel.Q, dim, scores);
    if (masked) hide_future(panel, first + j, diagonal, scores);
    HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) {
      Vector largest = m[c];
      HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r) {
        largest = hn::Max(largest, scores[r][c]);
        hn::Store(scores[r][c], f32, S + (j + r) * LANES + c * VECTOR);
      }
      m[c] = largest;
    }
  }
}

// P = exp2(S - m), in place; returns the row sums.
void exponentiate(float* S, int64_t count, const Vector (&m)[VECTORS], Vector (&sum)[VECTORS]) {
  HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) sum[c] = hn::Zero(f32);
  for (int64_t j = 0; j < count; ++j) {
    HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) {
      float* s = S + j * LANES + c * VECTOR;
      const Vector p = exp2(hn::Sub(hn::Load(f32, s), m[c]));
      sum[c] = hn::Add(sum[c], p);
      hn::Store(p, f32, s);
    }
  }
}

// O.T = O.T * rescale + V.T @ P.T
void add_values(const Panel& panel, const float* V, int64_t dim, int64_t count, const float* P,
                const Vector (&rescale)[VECTORS]) {
  for (int64_t d = 0; d < dim; d += ROWS) {
    const float* columns[ROWS];  // past the last: the last once more, into rows that nobody reads
    HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r) columns[r] = V + std::min(d + r, dim - 1);
    Vector sum[ROWS][VECTORS];
    multiply(columns, dim, P, count, sum);
    HWY_UNROLL(8) for (int r = 0; r < ROWS; ++r) {
      HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) {
        float* o = panel.O + (d + r) * LANES + c * VECTOR;
        hn::Store(hn::MulAdd(hn::Load(f32, o), rescale[c], sum[r][c]), f32, o);
      }
    }
  }
}

// [anchor: tile]
// One tile of keys against one panel of queries.
void attend(const Panel& panel, const float* K, const float* V, int64_t dim, int64_t first,
            int64_t count, int64_t diagonal, float* S) {
  Vector m_old[VECTORS], m[VECTORS], rescale[VECTORS], sum[VECTORS];
  HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) m[c] = m_old[c] = hn::Load(f32, panel.m + c * VECTOR);

  score_tile(panel, K, dim, first, count, diagonal, S, m);  // S = Q @ K.T, m' = max(m, rowmax S)
  HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) {
    hn::Store(m[c], f32, panel.m + c * VECTOR);
    // No key seen yet: -inf - (-inf) would be NaN, and exp2(-inf - 0) is the 0 that is meant.
    m[c] = hn::IfThenZeroElse(hn::Eq(m[c], hn::Set(f32, -kInfinity)), m[c]);
    rescale[c] = exp2(hn::Sub(m_old[c], m[c]));             // exp(m - m')
  }
  exponentiate(S, count, m, sum);                           // P = exp(S - m')
  HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c) {                       // l = l * exp(m - m') + rowsum P
    float* l = panel.l + c * VECTOR;
    hn::Store(hn::MulAdd(hn::Load(f32, l), rescale[c], sum[c]), f32, l);
  }
  add_values(panel, V + first * dim, dim, count, S, rescale);  // O = O * exp(m - m') + P @ V
}
// [/anchor: tile]

// Floats that one block of queries works in: Q, O, m and l of its panels, S of one.
int64_t scratch_floats(int64_t dim) {
  const int64_t O_rows = (dim + ROWS - 1) / ROWS * ROWS;
  return PANELS * (dim + O_rows + 2) * LANES + BLOCK_KV * LANES;
}

void load_queries(const Panel& panel, const float* Q, const fa::Shape& shape, float factor) {
  for (int64_t lane = 0; lane < LANES; ++lane) {
    const int64_t query = panel.first_query + lane;
    for (int64_t d = 0; d < shape.dim; ++d)
      panel.Q[d * LANES + lane] = query < shape.q ? Q[query * shape.dim + d] * factor : 0.0f;
  }
  const int64_t O_rows = (shape.dim + ROWS - 1) / ROWS * ROWS;
  std::fill_n(panel.O, O_rows * LANES, 0.0f);
  std::fill_n(panel.m, LANES, -kInfinity);
  std::fill_n(panel.l, LANES, 0.0f);
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
// BLOCK_Q queries of one head against all keys that they see.
void attend_block(const float* Q, const float* K, const float* V, float* O, float* lse,
                  const fa::Shape& shape, double scale, bool causal, int64_t q_block,
                  float* scratch) {
  const int64_t dim = shape.dim, diagonal = shape.kv - shape.q;
  const int64_t O_rows = (dim + ROWS - 1) / ROWS * ROWS;
  float* S = scratch + PANELS * (dim + O_rows + 2) * LANES;
  Panel panels[PANELS];
  int64_t num_panels = 0, visible = 0;
  for (int64_t query = q_block * BLOCK_Q;
       query < shape.q && num_panels < PANELS; query += LANES) {
    const int64_t last = std::min(query + LANES, shape.q) - 1;
    float* own = scratch + num_panels * (dim + O_rows + 2) * LANES;
    Panel& panel = panels[num_panels++];
    panel = {query, fa::visible_keys(shape, causal, last), fa::visible_keys(shape, causal, query),
             own, own + dim * LANES, own + (dim + O_rows) * LANES, own + (dim + O_rows + 1) * LANES};
    visible = panel.visible;
    load_queries(panel, Q, shape, static_cast<float>(scale / std::log(2.0)));
  }
  for (int64_t first = 0; first < visible; first += BLOCK_KV) {
    for (int64_t p = 0; p < num_panels; ++p) {
      const int64_t count = std::min(BLOCK_KV, panels[p].visible - first);
      if (count > 0) attend(panels[p], K, V, dim, first, count, diagonal, S);
    }
  }
  for (int64_t p = 0; p < num_panels; ++p) store_output(panels[p], shape, O, lse);
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
  // Starting a thread takes as long as about 6 million operations on one; n threads need
  // work / n + n * start, which is least at n = sqrt(work / start).
  threads = std::min(threads, 1 + static_cast<int>(std::min(std::sqrt(shape.flops() / 6e6), 1e6)));
  const int64_t block_q = HWY_DYNAMIC_DISPATCH(queries_per_block)();
  const int64_t q_blocks = (shape.q + block_q - 1) / block_q;
  const int64_t blocks = shape.batch * shape.heads * q_blocks;
  threads = static_cast<int>(std::min<int64_t>(threads, blocks));
  const int64_t own = HWY_DYNAMIC_DISPATCH(scratch_floats)(shape.dim);
  fa::counted_vector<float> scratch(threads * own);
  fa::parallel_for(blocks, threads, [&](int64_t index, int thread) {
    const int64_t head = index / q_blocks;
    const int64_t q_block = q_blocks - 1 - index % q_blocks;  // causal: the longest first
    const int64_t q_offset = head * shape.q * shape.dim, kv_offset = head * shape.kv * shape.dim;
    HWY_DYNAMIC_DISPATCH(attend_block)(q + q_offset, k + kv_offset, v + kv_offset, o + q_offset,
                                       lse ? lse + head * shape.q : nullptr, shape, scale, causal,
                                       q_block, scratch.data() + thread * own);
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
