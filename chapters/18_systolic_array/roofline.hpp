// Shows when tiling helps, from memory and bandwidth of four chips and the HBM traffic of
// attention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ch18 {

// The vendors' figures. We measured none of them.
struct Chip {
  const char* name;
  double tflops;           // bf16, dense
  double gigabytes_per_s;  // HBM
  double fast_bytes;       // memory for a tile, in VMEM of a core or shared memory of an SM
  const char* array;       // the multiplying units
};

const std::vector<Chip>& chips();

struct Crossover {
  double ridge;             // FLOP per HBM byte at which arithmetic and memory take equally long
  std::int64_t fits_up_to;  // keys up to which n × n fp32 scores fit into fast memory
  double unfused;  // FLOP per byte at large n, where scores are written, read, written, read
  std::int64_t fused_from;  // keys above which one transfer of Q, K, V and O is compute-bound
  std::int64_t block_from;  // queries per tile above which re-reading K and V is compute-bound
};

Crossover crossover(const Chip& chip, std::int64_t dim, std::int64_t bytes_per_element);

// HBM bytes of one head, in fp32 as in the article's measurements.
struct Traffic {
  const char* name;
  int dispatches;         // programs that are started one after another
  double score_matrices;  // n × n matrices that are read or written
  double bytes;
};
std::vector<Traffic> traffic(std::int64_t n, std::int64_t dim, std::int64_t bytes_per_element);

// One row of the article's tables, in milliseconds on a TPU v5e for one head, d = 64, fp32. NaN is
// not given.
struct Measured {
  std::int64_t n;
  double nojit, unfused, fused;  // first table
  double fori, vmap;             // second table
};
const std::vector<Measured>& article();

}  // namespace ch18
