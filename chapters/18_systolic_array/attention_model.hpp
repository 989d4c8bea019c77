// What attention costs on a matrix unit (MXU) and a vector unit (VPU), in cycles, under four ways
// of counting.
//
//   seed        the account of the article: an array as wide as the product, filled and drained for
//               each one, MXU and VPU one after the other
//   array       the products cut to the array that is there
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
  std::int64_t n = 512, dim = 64, block = 128;  // queries and keys; head dimension; rows of a tile
  bool causal = false;
};

struct Machine {
  std::int64_t rows = 128, cols = 128;  // of an MXU
  std::int64_t mxus = 1;
  std::int64_t lanes = 128;  // elements that the VPU does in a cycle
};

struct MatrixWork {
  std::string name;
  std::int64_t m, k, n;
  std::int64_t times;
  std::int64_t pieces;  // tiles of the array that one product takes
  std::int64_t cycles;  // of one product
};

struct VectorWork {
  std::string name;
  std::int64_t elements;    // that one operation goes over
  std::int64_t operations;  // each of one cycle for `lanes` elements
  std::int64_t times;
  std::int64_t cycles;  // operations · ⌈elements / lanes⌉
};

struct AttentionCost {
  std::vector<MatrixWork> matrix;
  std::vector<VectorWork> vector;
  std::int64_t drain = 0;  // the one fill and drain of a pipelined array
  std::int64_t mxu_cycles = 0, vpu_cycles = 0, total_cycles = 0;
  double useful_macs = 0;
  double busy = 0;         // useful_macs / (cells of all MXUs · mxu_cycles); above 1 where the
                           // account charges an array wider than the machine's
  double utilization = 0;  // the same, at most 1
  double of_total = 0;     // useful_macs / (cells of all MXUs · total_cycles), at most 1
};

AttentionCost attention_cost(const AttentionShape& shape, Accounting accounting,
                             const Machine& machine = {});

// Row maximum, exponential and row sum inside the array: cycles from one tile of size × size scores
// (d = size) to the next, by the issue slots in FSA's RTL (ExecutionPlan.scala, 8 pieces for exp).
std::int64_t inside_array_cycles(std::int64_t size);

// Tiles of block × block scores that are visited: with a causal mask those at and left of the
// diagonal.
std::int64_t tiles_visited(const AttentionShape& shape);

}  // namespace ch18
