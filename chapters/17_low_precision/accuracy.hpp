#pragma once
// The errors of attention in 8 and 4 bits, for schemes by inputs, against float64.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simulated.hpp"

namespace ch17 {

// SageAttention's three measures of `got` against `expected`, or NaN if a value is NaN.
struct Errors {
  double rmse = 0;         // root mean square of the differences
  double cosine = 0;       // cosine of the angle between both, as vectors
  double relative_l1 = 0;  // sum |difference| / sum |expected|
};
Errors errors_of(std::span<const float> got, std::span<const double> expected);

// An input, and the queries that are compared.
struct Input {
  std::string name;
  Head head;
  std::vector<int64_t> rows;
};

// normal: N(0,1).
// outliers: FlashAttention-3's N(0,1) + N(0,100) · Bernoulli(0.001). 100 is the variance, as in
// that
//   notation. With 100 as the deviation (outliers-100), errors are 22 to 46 times those of the
//   paper, so the paper cannot mean that.
// k-mean: normal, but each channel of K has a different mean, 8 · N(0,1).
// sink: normal, but the first key scores 10 with every query and its row of V is 0, as in models.
// long: normal, 65536 keys. long-v: the same, and V's mean is 0.5. The values are bf16, as a model
//   would provide them, so this rounding is not an error of a scheme.
inline constexpr const char* kInputs[] = {"normal", "outliers", "k-mean",      "sink",
                                          "long",   "long-v",   "outliers-100"};

// Makes an input. `keys` is also the number of queries, but at most 4096. `sample` is the number of
// queries that are compared.
Input make_input(const std::string& name, int64_t keys, int64_t dim, int64_t sample, uint64_t seed);

// `ch17_low_precision accuracy …`: argv[0] is "accuracy". Returns the exit code. Throws InputError.
int run_accuracy(int argc, char** argv);

}  // namespace ch17
