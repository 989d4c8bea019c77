#pragma once
// One attention problem: O = softmax(scale · Q Kᵀ) V for every batch and head.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "common/tensor.hpp"

namespace fa {

// The values are kept as fp32 but have been rounded to `dtype`, so that kernel and reference start
// from the same numbers.
struct Problem {
  Shape shape;
  Dtype dtype = Dtype::f32;
  double scale = 1;  // 1/√dim unless the user chose another
  bool causal = false;
  std::vector<float> q;     // [batch, heads, q, dim]
  std::vector<float> k, v;  // [batch, heads, kv, dim]
  std::vector<std::vector<float>> more = {};  // inputs that only some operations have
  // Changes a score before softmax sees it; −inf hides the key. Empty: none.
  std::function<double(double score, int64_t head, int64_t query, int64_t key)> modify_score = {};
};

// Normally distributed values with mean 0.5 and deviation 1: O then has a mean that is not zero, so
// a relative error means something. The same seed gives the same values on every machine.
// `input_scale` multiplies Q: softmax becomes sharper. Throws InputError if memory cannot hold it.
Problem random_problem(const Shape& shape, Dtype dtype, uint64_t seed, double input_scale = 1);

// Reads Q, K, V from .npy files (float16 or float32, [B,H,L,D] or [L,D]). Throws InputError for
// files that cannot be read, shapes that do not fit together, and values that are not finite.
// `*two_dimensional` says which of the two forms Q had.
Problem load_problem(const std::string& q, const std::string& k, const std::string& v, Dtype dtype,
                     double input_scale, bool* two_dimensional);

// A further input of an operation, of this shape; `number` tells several apart.
std::vector<float> random_values(std::span<const int64_t> shape, Dtype dtype, uint64_t seed,
                                 uint64_t number);
std::vector<float> load_values(const std::string& path, Dtype dtype,
                               std::span<const int64_t> shape);

int64_t elements_of(std::span<const int64_t> shape);

}  // namespace fa
