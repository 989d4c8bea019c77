#pragma once
// Every algorithm of this chapter behind one function.

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
  online,  // three passes, the score matrix in memory
  two_pass,
  one_pass_normalised,
  one_pass,  // one query at a time, no matrix
  tiled,
  fast,
};

struct AlgorithmName {
  Algorithm algorithm;
  const char* name;
  const char* idea;  // one sentence
};
extern const std::vector<AlgorithmName> kAlgorithms;  // in the order of the ladder
const char* name(Algorithm algorithm);

constexpr int64_t kLargestDim = 256;
constexpr int64_t kFastMemoryLimit = 1 << 20;  // bytes a thread may use beyond inputs and outputs
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct Options {
  Algorithm algorithm = Algorithm::tiled;
  Tiling tiling;
  ModifierChoice modifier;            // its `causal` is that of the problem
  uint32_t breaks = 0;                // of BreakBit; tiled only
  int threads = 0;                    // 0: all
  int64_t memory_limit = kNoLimit;    // bytes the algorithm may allocate
  std::optional<int64_t> traced_row;  // tiled only
};

struct Report {
  Counts counts;           // not counted for fast
  int64_t peak_bytes = 0;  // allocated by the algorithm, beyond inputs and outputs
  std::vector<TraceStep> trace;
};

// Throws fa::InputError for what attend does not take.
void validate(const fa::Problem& problem, const Options& options);

// Fills o [batch, heads, q, dim] and lse [batch, heads, q]. Throws fa::InputError if the memory
// limit is too low.
Report attend(const fa::Problem& problem, const Options& options, std::span<float> o,
              std::span<float> lse);

// Tells fa's checker about a modifier other than causal, in float64 and in words of its own.
void set_reference_modifier(fa::Problem& problem, const ModifierChoice& choice);

}  // namespace ch02
