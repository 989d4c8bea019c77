#pragma once
// Runs any algorithm of this chapter on a problem.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/problem.hpp"
#include "tiled.hpp"

namespace ch02 {

enum class Algorithm {
  native,
  safe,
  online,  // three passes, with the score matrix in memory
  two_pass,
  one_pass_normalised,
  one_pass,  // one query at a time, without a score matrix
  tiled,
  fast,
};

struct AlgorithmName {
  Algorithm algorithm;
  const char* name;
  const char* idea;  // one sentence
};
extern const std::vector<AlgorithmName> kAlgorithms;  // from native to fast
const char* name(Algorithm algorithm);

constexpr int64_t kLargestDim = 256;
constexpr int64_t kFastMemoryLimit = 1 << 20;  // bytes per thread beyond inputs and outputs
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct Options {
  Algorithm algorithm = Algorithm::tiled;
  Tiling tiling;
  ModifierChoice modifier;            // its `causal` equals the problem's
  uint32_t breaks = 0;                // bit mask of BreakBit, only for tiled
  int threads = 0;                    // 0 for all hardware threads
  int64_t memory_limit = kNoLimit;    // bytes the algorithm may allocate
  std::optional<int64_t> traced_row;  // only for tiled, records the steps of this row
};

struct Report {
  Counts counts;           // empty for fast
  int64_t peak_bytes = 0;  // allocated by the algorithm, without inputs and outputs
  std::vector<TraceStep> trace;
};

// Throws fa::InputError if attend() does not support the problem or the options.
void validate(const fa::Problem& problem, const Options& options);

// Computes o [batch, heads, q, dim] and lse [batch, heads, q]. Throws fa::InputError if the memory
// limit is too low.
Report attend(const fa::Problem& problem, const Options& options, std::span<float> o,
              std::span<float> lse);

// Adds a modifier other than causal to the problem's float64 reference. The reference has its own
// implementation of each modifier.
void set_reference_modifier(fa::Problem& problem, const ModifierChoice& choice);

}  // namespace ch02
