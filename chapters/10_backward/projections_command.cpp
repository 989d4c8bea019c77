// The subcommand projections shows the step after dQ. Q = X Wq, so dX = dQ Wq.T and dWq = X.T dQ,
// and likewise for K and V. It compares the operations and the traffic of three algorithms. K and
// dS cost nothing here, because they are in fast memory already when dQ = dS K is computed.

#include <algorithm>
#include <cmath>
#include <iostream>

#include "commands.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/problem.hpp"
#include "common/text.hpp"
#include "cpu_tile.hpp"

namespace fa::ch10 {
namespace {

constexpr int64_t kBlock = 16;  // rows of dS per tile

struct Sizes {
  int64_t n, d, w;  // n queries and keys, d columns of dQ, w columns of X
};

// Random matrices: dS [n, n], K [n, d], X [n, w], W [w, d].
struct Inputs {
  explicit Inputs(const Sizes& s)
      : dS(values({s.n, s.n}, 0)),
        K(values({s.n, s.d}, 1)),
        X(values({s.n, s.w}, 2)),
        W(values({s.w, s.d}, 3)) {}
  static std::vector<float> values(std::vector<int64_t> shape, uint64_t number) {
    return random_values(shape, Dtype::f32, 0, number);
  }
  std::vector<float> dS, K, X, W;
};

struct Outcome {
  explicit Outcome(const Sizes& s) : dX(s.n * s.w), dW(s.w * s.d) {}
  std::vector<float> dX, dW;  // [n, w], [w, d]
  int64_t flop = 0, read = 0, written = 0, dq_bytes = 0;

  void multiplied(int64_t rows, int64_t depth, int64_t cols) { flop += 2 * rows * depth * cols; }
  void loaded(int64_t numbers) { read += 4 * numbers; }
  void stored(int64_t numbers) { written += 4 * numbers; }
};

// Computes dQ = dS K for some rows.
std::vector<float> rows_of_dq(const Sizes& s, const Inputs& in, Range rows, Outcome& out) {
  std::vector<float> dQ(rows.size() * s.d);
  add_inner(dQ.data(), in.dS.data() + rows.begin * s.n, in.K.data(), rows.size(), s.n, s.d);
  out.multiplied(rows.size(), s.n, s.d);
  return dQ;
}

// Writes dQ to slow memory, and each of the two products reads it again.
Outcome stored(const Sizes& s, const Inputs& in) {
  Outcome out(s);
  const std::vector<float> dQ = rows_of_dq(s, in, {0, s.n}, out);
  out.stored(s.n * s.d);
  out.dq_bytes = 4 * s.n * s.d;

  multiply_transposed(out.dX.data(), dQ.data(), in.W.data(), s.n, s.w, s.d);  // dX = dQ @ W.T
  out.multiplied(s.n, s.d, s.w);
  out.loaded(s.n * s.d + s.w * s.d);
  out.stored(s.n * s.w);

  add_outer(out.dW.data(), in.X.data(), dQ.data(), s.w, s.n, s.d);  // dW = X.T @ dQ
  out.multiplied(s.w, s.n, s.d);
  out.loaded(s.n * s.w + s.n * s.d);
  out.stored(s.w * s.d);
  return out;
}

// [anchor: consumed_twice]
// Uses each tile of rows of dQ for dX and dW while it is in fast memory, and then drops it. W and
// dW stay in fast memory too.
Outcome consumed_twice(const Sizes& s, const Inputs& in) {
  Outcome out(s);
  out.loaded(s.w * s.d);
  for (int64_t tile = 0; tile < tiles_in(s.n, kBlock); ++tile) {
    const Range rows = tile_range(tile, kBlock, s.n);
    const std::vector<float> dQ = rows_of_dq(s, in, rows, out);
    const float* const X_rows = in.X.data() + rows.begin * s.w;
    multiply_transposed(out.dX.data() + rows.begin * s.w, dQ.data(), in.W.data(), rows.size(), s.w,
                        s.d);                                            // dX_i = dQ_i @ W.T
    add_outer(out.dW.data(), X_rows, dQ.data(), s.w, rows.size(), s.d);  // dW += X_i.T @ dQ_i
    out.multiplied(rows.size(), s.d, s.w);
    out.multiplied(s.w, rows.size(), s.d);
    out.loaded(rows.size() * s.w);
    out.stored(rows.size() * s.w);
  }
  out.stored(s.w * s.d);
  return out;
}
// [/anchor: consumed_twice]

// Computes dX = dS (K W.T), without dQ and without dW. K W.T has as many columns as X. It is
// computed once and reloaded for each tile of rows of dS.
Outcome folded(const Sizes& s, const Inputs& in) {
  Outcome out(s);
  std::vector<float> KW(s.n * s.w);
  multiply_transposed(KW.data(), in.K.data(), in.W.data(), s.n, s.w, s.d);
  out.multiplied(s.n, s.d, s.w);
  out.loaded(s.n * s.d + s.w * s.d);
  out.stored(s.n * s.w);

  add_inner(out.dX.data(), in.dS.data(), KW.data(), s.n, s.n, s.w);
  out.multiplied(s.n, s.n, s.w);
  out.loaded(tiles_in(s.n, kBlock) * s.n * s.w);
  out.stored(s.n * s.w);
  return out;
}

// True if the numbers agree up to the rounding of fp32 sums of n · d terms.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return largest_difference(a, b) <= 1e-4 * largest(b);
}

void print(const char* name, const Outcome& out) {
  std::cout << text("%-29s %13lld %12lld %12lld %10lld\n", name, (long long)out.flop,
                    (long long)out.read, (long long)out.written, (long long)out.dq_bytes);
}

}  // namespace

int projections_command(const CommandOptions& options) {
  const Sizes s{options.rows, options.head_dim, options.width};
  const Inputs inputs(s);
  const Outcome apart = stored(s, inputs), twice = consumed_twice(s, inputs);
  const Outcome direct = folded(s, inputs);
  std::cout
      << text("n = %lld queries and keys, d = %lld columns of dQ, w = %lld columns of X; fp32.\n\n",
              (long long)s.n, (long long)s.d, (long long)s.w)
      << text("%-29s %13s %12s %12s %10s\n", "", "FLOP", "bytes read", "written", "dQ stored");
  print("dQ stored, dX and dW from it", apart);
  print("each row of dQ consumed twice", twice);
  print("dX = dS (K Wq.T), without dW", direct);
  const long long attention = 10 * s.n * s.n * s.d, weights = 6 * s.n * s.d * s.w;
  std::cout << text(
      "\nFor Q, K and V together:\n"
      "dQ, dK, dV (five products of n x n) %lld FLOP = 10 n^2 d,\n"
      "then dX %lld = 6 n d w, and dWq, dWk, dWv %lld = 6 n d w.\n",
      attention, weights, weights);
  std::cout << text(
      "Consumed twice saves 3 n d numbers, %lld bytes,\n"
      "and keeps Wq and dWq, %lld bytes, in fast memory.\n",
      (long long)(12 * s.n * s.d), (long long)(8 * s.w * s.d));

  std::cout << "\nFolded or not, FLOP of dX alone: dS (K Wq.T) against (dS K) Wq.T\n"
            << text("%8s %14s %14s %8s\n", "w", "folded", "not", "ratio");
  for (const int64_t w : {s.d / 4, s.d / 2, s.d, 2 * s.d, 8 * s.d, 32 * s.d}) {
    if (w == 0) continue;
    const int64_t both = 2 * s.n * s.d * w;  // K Wq.T, or dQ Wq.T
    const int64_t fold = both + 2 * s.n * s.n * w, plain = both + 2 * s.n * s.n * s.d;
    std::cout << text("%8lld %14lld %14lld %8.2f\n", (long long)w, (long long)fold,
                      (long long)plain, double(fold) / double(plain));
  }
  const bool agree =
      same(twice.dX, apart.dX) && same(twice.dW, apart.dW) && same(direct.dX, apart.dX);
  std::cout << (agree ? "\nAll three agree.\n" : "\nThey do NOT agree.\n");
  return agree ? kAgreed : kDisagreed;
}

}  // namespace fa::ch10
