// When does tiling pay? Memory and bandwidth of four chips, and how often attention crosses HBM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ch18 {

// The vendors' figures. Nothing here was measured by us.
struct Chip {
  const char* name;
  double tflops;           // bf16, dense
  double gigabytes_per_s;  // HBM
  double fast_bytes;       // what a tile can be kept in: VMEM of a core; shared memory of an SM
  const char* array;       // what multiplies
};

const std::vector<Chip>& chips();

struct Crossover {
  double ridge;             // FLOP for each HBM byte at which arithmetic and memory take as long
  std::int64_t fits_up_to;  // keys up to which n × n scores in fp32 fit into fast memory
  double unfused;           // FLOP per byte at large n: scores written, read, written, read
  std::int64_t fused_from;  // keys from which Q, K, V, O alone, once each, are compute-bound
  std::int64_t block_from;  // queries in a tile from which re-reading K and V is
};

Crossover crossover(const Chip& chip, std::int64_t dim, std::int64_t bytes_per_element);

// HBM bytes of one head, fp32 in the article's measurements.
struct Traffic {
  const char* name;
  int dispatches;         // programs that are started one after the other
  double score_matrices;  // n × n matrices read or written
  double bytes;
};
std::vector<Traffic> traffic(std::int64_t n, std::int64_t dim, std::int64_t bytes_per_element);

// One row of the article's tables: milliseconds on a TPU v5e, one head, d = 64, fp32; NaN: no
// number.
struct Measured {
  std::int64_t n;
  double nojit, unfused, fused;  // its first table
  double fori, vmap;             // its second
};
const std::vector<Measured>& article();

}  // namespace ch18
