#include "attention_model.hpp"

#include <algorithm>

namespace ch18 {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Returns Σ cost over the tiles of K × N weights.
template <class Cost>
std::int64_t over_tiles(std::int64_t k, std::int64_t n, const Machine& machine, Cost cost) {
  const auto along_n = [&](std::int64_t height) {
    const std::int64_t full = n / machine.cols, rest = n % machine.cols;
    return full * cost(height, machine.cols) + (rest ? cost(height, rest) : 0);
  };
  const std::int64_t full = k / machine.rows, rest = k % machine.rows;
  return (full ? full * along_n(machine.rows) : 0) + (rest ? along_n(rest) : 0);
}

MatrixWork product(const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n,
                   std::int64_t times, Accounting accounting, const Machine& machine) {
  MatrixWork work{name, m, k, n, times, 1, m + k + n - 2};
  if (accounting == Accounting::kSeed) return work;
  work.pieces = ceil_div(k, machine.rows) * ceil_div(n, machine.cols);
  // [anchor: accounting]
  work.cycles = over_tiles(k, n, machine, [&](std::int64_t height, std::int64_t width) {
    return accounting == Accounting::kArray ? m + height + width - 2  // fill, stream, drain
                                            : std::max(m, height);    // stream, or wait for weights
  });
  // [/anchor: accounting]
  return work;
}

}  // namespace

std::int64_t tiles_visited(const AttentionShape& shape) {
  const std::int64_t blocks = ceil_div(shape.n, shape.block);
  return shape.causal ? blocks * (blocks + 1) / 2 : blocks * blocks;
}

std::int64_t inside_array_cycles(std::int64_t size) {
  // [anchor: inside]
  const std::int64_t load_q = size - 1;  // Q stays, K streams up through it
  const std::int64_t exp_pieces = 8;     // e^x by line segments, which the array's own cells choose
  const std::int64_t scores = 2 * size + 3 + exp_pieces;  // S up past the maxima, down again, exp
  const std::int64_t values = 2 * size - 2;               // P is where S was, and V streams through
                                                          // it
  return load_q + scores + values;
  // [/anchor: inside]
}

AttentionCost attention_cost(const AttentionShape& shape, Accounting accounting,
                             const Machine& machine) {
  AttentionCost cost;
  const auto [algorithm, n, dim, block, causal] = shape;
  if (algorithm == Algorithm::kStandard) {
    cost.matrix = {product("S = Q @ K.T", n, dim, n, 1, accounting, machine),
                   product("O = P @ V", n, n, dim, 1, accounting, machine)};
    cost.vector = {{"scale, mask, softmax", n * n, 9, 1, 0}};
    cost.useful_macs = 2.0 * n * n * dim;
  } else {
    const std::int64_t tiles = tiles_visited(shape), blocks = ceil_div(n, block);
    cost.matrix = {product("S = Q @ K.T", block, dim, block, tiles, accounting, machine),
                   product("O += P @ V", block, block, dim, tiles, accounting, machine)};
    cost.vector = {{"scale, mask, maximum, subtract, exp, select, sum", block * block, 7, tiles, 0},
                   {"new maximum, its difference, exp, select, rescale l, add", block, 6, tiles, 0},
                   {"rescale O, add", block * dim, 2, tiles, 0},
                   {"m, l, their start and end", block, 4, blocks, 0},
                   {"divide O", block * dim, 1, blocks, 0},
                   {"the rest", n, 1, 1, 0}};
    // The last tile of a row or column may be shorter. It is padded, but padding is not useful
    // work.
    const std::int64_t rest = n - (blocks - 1) * block;
    double pairs = 0;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const double rows = i + 1 == blocks ? rest : block;
      pairs += causal ? rows * (i + 1 == blocks ? n : (i + 1) * block) : rows * n;
    }
    cost.useful_macs = 2.0 * pairs * dim;
  }
  for (const MatrixWork& work : cost.matrix) {
    // Distributed over the MXUs, including the tiles of one product if it is split into tiles.
    cost.mxu_cycles += accounting == Accounting::kSeed || work.pieces == 1
                           ? ceil_div(work.times, machine.mxus) * work.cycles
                           : ceil_div(work.times * work.cycles, machine.mxus);
  }
  if (accounting >= Accounting::kPipelined) {
    const MatrixWork& last = cost.matrix.back();
    cost.drain = std::min(last.k, machine.rows) + std::min(last.n, machine.cols) - 2;
    cost.mxu_cycles += cost.drain;
  }
  for (VectorWork& work : cost.vector) {
    work.cycles = work.operations * ceil_div(work.elements, machine.lanes);
    cost.vpu_cycles += work.times * work.cycles;
  }
  cost.total_cycles = accounting == Accounting::kOverlapped
                          ? std::max(cost.mxu_cycles, cost.vpu_cycles)
                          : cost.mxu_cycles + cost.vpu_cycles;
  const double cells = static_cast<double>(machine.rows) * machine.cols * machine.mxus;
  cost.busy = cost.useful_macs / (cells * cost.mxu_cycles);
  cost.utilization = std::min(1.0, cost.busy);
  cost.of_total = std::min(1.0, cost.useful_macs / (cells * cost.total_cycles));
  return cost;
}

}  // namespace ch18
