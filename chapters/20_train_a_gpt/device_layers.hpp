#pragma once
// The layers of a GPT other than attention and products, as kernels. A warp processes a row of the
// residual path, or a thread processes four elements of a long vector. They are limited by memory
// bandwidth, so two passes over a tensor are merged into one where possible.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ch20 {

constexpr int WARPS = 8, THREADS = WARPS * WARP_SIZE;
constexpr float NORM_EPSILON = 1e-5f;

// Four adjacent elements, which a lane loads or stores at once.
struct alignas(16) Floats {
  float x[4];
};
struct alignas(8) Halves {
  uint32_t word[2];
};

FA_DEVICE Floats to_floats(const Halves& h) {
  return {unpack_low<bf16>(h.word[0]), unpack_high<bf16>(h.word[0]), unpack_low<bf16>(h.word[1]),
          unpack_high<bf16>(h.word[1])};
}
FA_DEVICE Halves to_halves(const Floats& f) {
  return {pack_bf16x2(f.x[0], f.x[1]), pack_bf16x2(f.x[2], f.x[3])};
}
FA_DEVICE Floats load_floats(const float* p, FA_SITE) {
  return load_global(reinterpret_cast<const Floats*>(p), line, file);
}
FA_DEVICE void store_floats(float* p, const Floats& value, FA_SITE) {
  store_global(reinterpret_cast<Floats*>(p), value, line, file);
}
FA_DEVICE Floats load_halves(const bf16* p, FA_SITE) {
  return to_floats(load_global(reinterpret_cast<const Halves*>(p), line, file));
}
FA_DEVICE void store_halves(bf16* p, const Floats& value, FA_SITE) {
  store_global(reinterpret_cast<Halves*>(p), to_halves(value), line, file);
}

FA_DEVICE float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x += shfl_xor(x, mask);
  return x;
}
FA_DEVICE float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = max(x, shfl_xor(x, mask));
  return x;
}

// ---- embeddings ----

// X [rows, channels] = token + position, where one_hot [rows, vocabulary] has a 1 at each row's
// token.
struct Embed {
  const int* tokens;
  const float *token, *position;
  float* X;
  bf16* one_hot;
  int rows, context, channels, vocabulary;
};
FA_KERNEL FA_LAUNCH_BOUNDS(THREADS, 1)
void embed(const Embed p) {
  const int row = block_index() * WARPS + warp_index();
  if (row >= p.rows) return;
  const int token = load_global(p.tokens + row);
  const int64_t at = int64_t{row} * p.channels;
  for (int col = lane_index() * 4; col < p.channels; col += 4 * WARP_SIZE) {
    const Floats a = load_floats(p.token + int64_t{token} * p.channels + col);
    const Floats b = load_floats(p.position + int64_t{row % p.context} * p.channels + col);
    store_floats(p.X + at + col,
                 {a.x[0] + b.x[0], a.x[1] + b.x[1], a.x[2] + b.x[2], a.x[3] + b.x[3]});
  }
  for (int col = lane_index() * 4; col < p.vocabulary; col += 4 * WARP_SIZE) {
    Floats hot;
    for (int i = 0; i < 4; ++i) hot.x[i] = col + i == token ? 1.0f : 0.0f;
    store_halves(p.one_hot + int64_t{row} * p.vocabulary + col, hot);
  }
}

// dposition [context, channels], the sum of dX over the batch
FA_KERNEL FA_LAUNCH_BOUNDS(THREADS, 1)
void sum_positions(const float* dX, float* dposition, int batch, int64_t elements) {
  const int64_t at = (int64_t{block_index()} * THREADS + thread_index()) * 4;
  if (at >= elements) return;
  Floats sum = {};
  for (int b = 0; b < batch; ++b) {
    const Floats dx = load_floats(dX + b * elements + at);
    for (int i = 0; i < 4; ++i) sum.x[i] += dx.x[i];
  }
  store_floats(dposition + at, sum);
}

// ---- layer norm ----

// A lane's part of a row, which is column (chunk * 32 + lane) * 4 and the next three.
template <int CHUNKS>
struct Row {
  Floats part[CHUNKS];
};
FA_DEVICE int column(int chunk) { return (chunk * WARP_SIZE + lane_index()) * 4; }

// x becomes (x - mean) * inverse deviation, and 0 past its end. Returns the inverse deviation.
template <int CHUNKS>
FA_DEVICE float normalize(Row<CHUNKS>& row, int channels) {
  const float n = static_cast<float>(channels);
  float sum = 0.0f, squares = 0.0f;
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
    for (int i = 0; i < 4; ++i) sum += row.part[chunk].x[i];
  const float mean = warp_sum(sum) / n;
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
    for (int i = 0; i < 4; ++i) {
      float& x = row.part[chunk].x[i];
      x = column(chunk) < channels ? x - mean : 0.0f;
      squares = fma(x, x, squares);
    }
  const float inverse_deviation = 1.0f / sqrt(warp_sum(squares) / n + NORM_EPSILON);
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
    for (int i = 0; i < 4; ++i) row.part[chunk].x[i] *= inverse_deviation;
  return inverse_deviation;
}

// [anchor: add_norm]
// sum = X + branch, Y = norm(sum), the end of a branch and the start of the next in one pass.
// Without a branch, X is the sum.
struct AddNorm {
  const float* X;
  const bf16* branch;
  float* sum;
  const float *gain, *bias;
  bf16* Y;
  int rows, channels;
};
template <int CHUNKS>
FA_KERNEL FA_LAUNCH_BOUNDS(THREADS, 1)
void add_norm(const AddNorm p) {
  const int index = block_index() * WARPS + warp_index();
  if (index >= p.rows) return;
  const int64_t at = int64_t{index} * p.channels;
  Row<CHUNKS> row;
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    Floats& x = row.part[chunk];
    const int col = column(chunk);
    x = {};
    if (col >= p.channels) continue;
    x = load_floats(p.X + at + col);
    if (p.branch == nullptr) continue;
    const Floats more = load_halves(p.branch + at + col);
    for (int i = 0; i < 4; ++i) x.x[i] += more.x[i];
    store_floats(p.sum + at + col, x);
  }
  normalize(row, p.channels);
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const int col = column(chunk);
    if (col >= p.channels) continue;
    Floats& x = row.part[chunk];
    const Floats gain = load_floats(p.gain + col), bias = load_floats(p.bias + col);
    for (int i = 0; i < 4; ++i) x.x[i] = fma(x.x[i], gain.x[i], bias.x[i]);
    store_halves(p.Y + at + col, x);
  }
}
// [/anchor: add_norm]

// dX = before + the gradient through Y = norm(X), also rounded, for the preceding product. Without
// `before`, it counts as 0. Each warp's sums for gain and bias go to `partial` [warps, 2,
// channels].
struct NormBackward {
  const bf16* dY;
  const float *X, *gain, *before;
  float* dX;
  bf16* dX_rounded;
  float* partial;
  int rows, channels;
};
template <int CHUNKS>
FA_KERNEL FA_LAUNCH_BOUNDS(THREADS, 1)
void norm_backward(const NormBackward p) {
  const int warp = block_index() * WARPS + warp_index(), warps = grid_size().x * WARPS;
  const float n = static_cast<float>(p.channels);
  Row<CHUNKS> dgain = {}, dbias = {};
  for (int index = warp; index < p.rows; index += warps) {
    const int64_t at = int64_t{index} * p.channels;
    Row<CHUNKS> x, g;
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int col = column(chunk);
      x.part[chunk] = g.part[chunk] = {};
      if (col >= p.channels) continue;
      x.part[chunk] = load_floats(p.X + at + col);
      g.part[chunk] = load_halves(p.dY + at + col);
    }
    const float inverse_deviation = normalize(x, p.channels);
    float sum = 0.0f, sum_x = 0.0f;
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int col = column(chunk);
      if (col >= p.channels) continue;
      const Floats gain = load_floats(p.gain + col);
      for (int i = 0; i < 4; ++i) {
        float& dy = g.part[chunk].x[i];
        const float xi = x.part[chunk].x[i];
        dgain.part[chunk].x[i] = fma(dy, xi, dgain.part[chunk].x[i]);
        dbias.part[chunk].x[i] += dy;
        dy *= gain.x[i];
        sum += dy;
        sum_x = fma(dy, xi, sum_x);
      }
    }
    const float mean = warp_sum(sum) / n, mean_x = warp_sum(sum_x) / n;
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int col = column(chunk);
      if (col >= p.channels) continue;
      Floats dx = p.before != nullptr ? load_floats(p.before + at + col) : Floats{};
      for (int i = 0; i < 4; ++i) {
        const float through = g.part[chunk].x[i] - mean - x.part[chunk].x[i] * mean_x;
        dx.x[i] = fma(through, inverse_deviation, dx.x[i]);
      }
      store_floats(p.dX + at + col, dx);
      store_halves(p.dX_rounded + at + col, dx);
    }
  }
  float* const partial = p.partial + int64_t{warp} * 2 * p.channels;
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const int col = column(chunk);
    if (col >= p.channels) continue;
    store_floats(partial + col, dgain.part[chunk]);
    store_floats(partial + p.channels + col, dbias.part[chunk]);
  }
}

// sums [columns] = the column sums of partial [parts, columns]. A block has 32 columns.
FA_KERNEL FA_LAUNCH_BOUNDS(1024, 1)
void sum_partials(const float* partial, float* sums, int parts, int columns) {
  const int col = block_index() * WARP_SIZE + lane_index();
  float sum = 0.0f;
  if (col < columns)
    for (int part = warp_index(); part < parts; part += 32)
      sum += load_global(partial + int64_t{part} * columns + col);
  const uint32_t smem = dynamic_smem();
  store_shared<float>(smem + (warp_index() * WARP_SIZE + lane_index()) * sizeof(float), sum);
  block_sync();
  if (warp_index() != 0 || col >= columns) return;
  sum = 0.0f;
  for (int warp = 0; warp < 32; ++warp)
    sum += load_shared<float>(smem + (warp * WARP_SIZE + lane_index()) * sizeof(float));
  store_global(sums + col, sum);
}

// ---- cross entropy ----

// losses [rows] = -log softmax(logits)[target], dlogits = (softmax(logits) - one_hot(target)) /
// rows. A row has `stride` columns, and those at `vocabulary` and above are padding.
struct CrossEntropy {
  const float* logits;
  const int* targets;
  float* losses;
  bf16* dlogits;
  int rows, vocabulary, stride;
};
FA_KERNEL FA_LAUNCH_BOUNDS(THREADS, 1)
void cross_entropy(const CrossEntropy p) {
  const int row = block_index() * WARPS + warp_index();
  if (row >= p.rows) return;
  const float* const logits = p.logits + int64_t{row} * p.stride;
  const int target = load_global(p.targets + row);
  float m = load_global(logits);
  for (int col = lane_index(); col < p.vocabulary; col += WARP_SIZE)
    m = max(m, load_global(logits + col));
  m = warp_max(m);
  float sum = 0.0f;
  for (int col = lane_index(); col < p.vocabulary; col += WARP_SIZE)
    sum += exp(load_global(logits + col) - m);
  sum = warp_sum(sum);
  if (lane_index() == 0) store_global(p.losses + row, m + log(sum) - load_global(logits + target));
  const float factor = 1.0f / static_cast<float>(p.rows);
  for (int col = lane_index() * 4; col < p.stride; col += 4 * WARP_SIZE) {
    const Floats x = load_floats(logits + col);
    Floats d = {};
    for (int i = 0; i < 4; ++i)
      if (col + i < p.vocabulary)
        d.x[i] = (exp(x.x[i] - m) / sum - (col + i == target ? 1.0f : 0.0f)) * factor;
    store_halves(p.dlogits + int64_t{row} * p.stride + col, d);
  }
}

// ---- AdamW ----

// A piece of one parameter, which is the work of a block.
struct alignas(16) Piece {
  int64_t begin;
  int count, decays;
};
constexpr int PIECE = 16 * THREADS;

struct AdamW {
  const Piece* pieces;
  const float* gradient;
  float *weights, *moment, *square;
  bf16* rounded;  // the weights in bf16, for the products
  float rate, decay, beta_1, beta_2, epsilon, correct_moment, correct_square;
};
FA_KERNEL FA_LAUNCH_BOUNDS(THREADS, 1)
void adamw(const AdamW p) {
  const Piece piece = load_global(p.pieces + block_index());
  const float keep = piece.decays != 0 ? 1.0f - p.rate * p.decay : 1.0f;
  for (int first = thread_index() * 4; first < piece.count; first += THREADS * 4) {
    const int64_t at = piece.begin + first;
    const Floats g = load_floats(p.gradient + at);
    Floats w = load_floats(p.weights + at), m = load_floats(p.moment + at);
    Floats v = load_floats(p.square + at);
    for (int i = 0; i < 4; ++i) {
      m.x[i] = p.beta_1 * m.x[i] + (1.0f - p.beta_1) * g.x[i];
      v.x[i] = p.beta_2 * v.x[i] + (1.0f - p.beta_2) * g.x[i] * g.x[i];
      const float step = m.x[i] / p.correct_moment / (sqrt(v.x[i] / p.correct_square) + p.epsilon);
      w.x[i] = w.x[i] * keep - p.rate * step;
    }
    store_floats(p.weights + at, w);
    store_floats(p.moment + at, m);
    store_floats(p.square + at, v);
    store_halves(p.rounded + at, w);
  }
}

}  // namespace FA_BACKEND::ch20
