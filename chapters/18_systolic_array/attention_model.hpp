// Models the cycles of attention on a matrix unit (MXU) and a vector unit (VPU), counted in four
// ways.
//
//   seed        the article's way: an array as wide as the product, filled and drained for each
//   one, MXU
//               and VPU one after the other
//   array       products are split for the actual array
//   pipelined   the next weights arrive while this tile multiplies
//   overlapped  MXU and VPU work at the same time: the larger counts, not the sum
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ch18 {

enum class Algorithm { kFlash, kStandard };
enum class Accounting { kSeed, kArray, kPipelined, kOverlapped };

struct AttentionShape {
  Algorithm algorithm = Algorithm::kFlash;
  std::int64_t n = 512, dim = 64, block = 128;  // queries and keys, head dimension, rows per tile
  bool causal = false;
};

struct Machine {
  std::int64_t rows = 128, cols = 128;  // per MXU
  std::int64_t mxus = 1;
  std::int64_t lanes = 128;  // elements that the VPU processes per cycle
};

struct MatrixWork {
  std::string name;
  std::int64_t m, k, n;
  std::int64_t times;
  std::int64_t pieces;  // tiles of the array per product
  std::int64_t cycles;  // per product
};

struct VectorWork {
  std::string name;
  std::int64_t elements;    // elements per operation
  std::int64_t operations;  // each takes one cycle per `lanes` elements
  std::int64_t times;
  std::int64_t cycles;  // operations · ⌈elements / lanes⌉
};

struct AttentionCost {
  std::vector<MatrixWork> matrix;
  std::vector<VectorWork> vector;
  std::int64_t drain = 0;  // the single fill and drain of a pipelined array
  std::int64_t mxu_cycles = 0, vpu_cycles = 0, total_cycles = 0;
  double useful_macs = 0;
  double busy = 0;  // useful_macs / (cells of all MXUs · mxu_cycles); above 1 if the account
                    // charges an array wider than the machine's
  double utilization = 0;  // the same, at most 1
  double of_total = 0;     // useful_macs / (cells of all MXUs · total_cycles), at most 1
};

AttentionCost attention_cost(const AttentionShape& shape, Accounting accounting,
                             const Machine& machine = {});

// Returns the cycles from one tile of size × size scores (d = size) to the next, with row maximum,
// exponential and row sum inside the array, by the issue slots in FSA's RTL (ExecutionPlan.scala, 8
// pieces for exp).
std::int64_t inside_array_cycles(std::int64_t size);

// Returns how many tiles of block × block scores are visited, with a causal mask those on and left
// of the diagonal.
std::int64_t tiles_visited(const AttentionShape& shape);

}  // namespace ch18
