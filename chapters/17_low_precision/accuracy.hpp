#pragma once
// What 8 and 4 bits cost: schemes by inputs, against float64.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simulated.hpp"

namespace ch17 {

// SageAttention's three measures of `got` against `expected`; NaN once a number is.
struct Errors {
  double rmse = 0;         // root mean square of the differences
  double cosine = 0;       // of the angle between both, as vectors
  double relative_l1 = 0;  // sum |difference| / sum |expected|
};
Errors errors_of(std::span<const float> got, std::span<const double> expected);

// An input, and the queries that are looked at.
struct Input {
  std::string name;
  Head head;
  std::vector<int64_t> rows;
};

// normal: N(0,1).
// outliers: FlashAttention-3's N(0,1) + N(0,100) · Bernoulli(0.001); 100 is the variance, as the
//   notation has it. With 100 as the deviation, outliers-100, errors are 22 to 46 times those of
//   the paper: it cannot have meant that.
// k-mean: normal, but K has in each channel a mean of its own, 8 · N(0,1).
// sink: normal, but the first key scores 10 with every query, and its row of V is 0: models have
// one. long: normal, 65536 keys. long-v: the same, V's mean is 0.5. The numbers are bf16's, as a
// model would hand them over: their rounding is no error of a scheme.
inline constexpr const char* kInputs[] = {"normal", "outliers", "k-mean",      "sink",
                                          "long",   "long-v",   "outliers-100"};

// `keys` is also the number of queries, but at most 4096. `sample`: how many of these are looked
// at.
Input make_input(const std::string& name, int64_t keys, int64_t dim, int64_t sample, uint64_t seed);

// `ch17_low_precision accuracy …`: argv[0] is "accuracy". Returns an exit code. Throws InputError.
int run_accuracy(int argc, char** argv);

}  // namespace ch17
