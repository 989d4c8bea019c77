#pragma once
// One function that runs every algorithm of the backward pass on the CPU.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/problem.hpp"
#include "cpu_schedules.hpp"

namespace fa::ch10 {

enum class Algorithm {
  naive,    // S, P, dP and dS in slow memory
  rows,     // queries outside
  columns,  // keys outside
  tiled,    // the same, in tiles as large as fast memory takes
};

struct AlgorithmName {
  Algorithm algorithm;
  const char* name;
  Tiling tiling;  // by default, rows and columns go element by element
};
extern const std::vector<AlgorithmName> kAlgorithms;
const AlgorithmName& named(Algorithm algorithm);

constexpr int64_t kLargestDim = 256;
constexpr int64_t kFastMemoryLimit = 1 << 20;  // bytes of tiles that a thread may use
constexpr int64_t kLongestTrace = 1 << 14;     // steps
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct Options {
  Algorithm algorithm = Algorithm::tiled;
  Tiling tiling = {};
  DFrom d_from = DFrom::o;
  uint32_t breaks = 0;              // bits of BackwardBreak; naive has none
  int threads = 0;                  // 0 for all hardware threads
  int64_t memory_limit = kNoLimit;  // bytes the algorithm may allocate
  bool trace = false;               // records the first head of K and V; naive does not
};

struct Report {
  Traffic traffic;         // counts the backward pass, with D and without the forward pass
  int64_t peak_bytes = 0;  // in addition to inputs and outputs
};

// Throws InputError if differentiate does not take this problem.
void validate(const Problem& problem, const Options& options);
void validate_tiling(Tiling tiling, int64_t dim);  // its part that needs no problem

// dO is problem.d_o. Computes O and LSE, then fills dQ [batch, heads, q, dim], and dK and dV
// [batch, heads / group, kv, dim]. Throws InputError if the memory limit is too low.
Report differentiate(const Problem& problem, const Options& options, std::span<float> dQ,
                     std::span<float> dK, std::span<float> dV);

// The same in the type T, for given tensors. Fills O and LSE as well.
template <class T>
Traffic differentiate(const Tensors<T>& tensors, const Options& options);

extern template Traffic differentiate(const Tensors<double>&, const Options&);

}  // namespace fa::ch10
