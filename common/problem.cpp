#include "common/problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "common/error.hpp"
#include "common/memory.hpp"
#include "common/npy.hpp"
#include "common/parallel.hpp"
#include "common/parse.hpp"

namespace fa {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014) maps a counter to 64 well-mixed bits.
uint64_t mix(uint64_t counter) {
  uint64_t z = counter * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Returns a normally distributed number, by the Box-Muller transform of two uniform numbers of 53
// bits. The first one is never 0.
double normal(uint64_t stream, uint64_t index) {
  const uint64_t first = mix(stream + 2 * index), second = mix(stream + 2 * index + 1);
  const double radius = std::sqrt(-2 * std::log(static_cast<double>((first >> 11) + 1) * 0x1p-53));
  return radius * std::cos(2 * std::numbers::pi * static_cast<double>(second >> 11) * 0x1p-53);
}

void fill(std::vector<float>& values, uint64_t stream, double factor, Dtype dtype) {
  constexpr int64_t kChunk = 1 << 16;
  const int64_t count = static_cast<int64_t>(values.size());
  parallel_for((count + kChunk - 1) / kChunk, 0, [&](int64_t chunk, int) {
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const double value = factor * (0.5 + normal(stream, static_cast<uint64_t>(i)));
      values[i] = round_to(dtype, static_cast<float>(value));
    }
  });
}

// Throws InputError if a value is not finite: "--v-scale makes V too large for bf16".
void check_finite(std::span<const float> values, const char* what, Dtype dtype) {
  for (const float value : values) {
    if (std::isfinite(value)) continue;
    throw InputError(std::string(what) + " too large for " + name(dtype));
  }
}

void check_memory(const Shape& shape) {
  const double needed = 2.0 * sizeof(float) * (shape.q_elements() + shape.kv_elements());
  const double present = memory_bytes();
  if (!(needed < 0.9 * present)) {
    throw InputError("shape " + to_string(shape) + ": Q, K, V and O need " + format_bytes(needed) +
                     ", this machine has " + format_bytes(present) + " for this process");
  }
}

// Returns the position of element `flat` in a tensor of this shape: "[0, 3, 17]".
std::string position(std::span<const int64_t> shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
  return bracketed(index);
}

// Returns the values of a file, rounded to `dtype`, and sets its sizes as [B, H, L, D].
std::vector<float> load(const std::string& path, Dtype dtype, double factor,
                        std::array<int64_t, 4>& sizes, bool* two_dimensional = nullptr) {
  const NpyArray array = read_npy(path, {NpyType::f16, NpyType::f32});
  const size_t dimensions = array.shape.size();
  if (dimensions != 2 && dimensions != 4) {
    throw InputError(path + ": has " + std::to_string(dimensions) +
                     " dimensions; accepted: [batch, heads, length, dim] or [length, dim]");
  }
  if (two_dimensional) *two_dimensional = dimensions == 2;
  sizes = {1, 1, 1, 1};
  for (size_t d = 0; d < dimensions; ++d) sizes[4 - dimensions + d] = array.shape[d];
  for (const int64_t size : sizes) {
    if (size == 0) throw InputError(path + ": has a dimension of size 0");
  }
  std::vector<float> values = array.floats();
  int64_t bad = 0, first_bad = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool finite = std::isfinite(values[i]);
    if (finite) values[i] = round_to(dtype, static_cast<float>(factor * values[i]));
    if (!std::isfinite(values[i]) && bad++ == 0) first_bad = static_cast<int64_t>(i);
  }
  if (bad > 0) {
    throw InputError(path + ": " + std::to_string(bad) + " of " + std::to_string(values.size()) +
                     " values are NaN, Inf or too large for " + name(dtype) + ", the first at " +
                     position(array.shape, first_bad) + "; every value must be finite");
  }
  return values;
}

}  // namespace

double Problem::sink_of(int64_t batch_head) const {
  return sinks.empty() ? -INFINITY : sinks[batch_head % shape.heads];
}

Problem random_problem(const Shape& shape, Dtype dtype, uint64_t seed, double input_scale,
                       int64_t group) {
  check_addressable(shape, "shape " + to_string(shape));
  check_memory(shape);
  Problem problem;
  problem.shape = shape;
  problem.dtype = dtype;
  problem.scale = 1 / std::sqrt(static_cast<double>(shape.dim));
  problem.q.resize(shape.q_elements());
  problem.group = group;
  problem.k.resize(problem.kv_elements());
  problem.v.resize(problem.kv_elements());
  fill(problem.q, mix(3 * seed), input_scale, dtype);
  fill(problem.k, mix(3 * seed + 1), 1, dtype);
  fill(problem.v, mix(3 * seed + 2), 1, dtype);
  check_finite(problem.q, "--input-scale makes Q", dtype);
  return problem;
}

void make_ramp(Problem& problem, double rise) {
  const auto [batch, heads, queries, keys, dim] = problem.shape;
  const auto rounded = [&](double value) {
    return round_to(problem.dtype, static_cast<float>(value));
  };
  std::fill(problem.q.begin(), problem.q.end(), 0.0f);
  std::fill(problem.k.begin(), problem.k.end(), 0.0f);
  for (int64_t row = 0; row < batch * heads * queries; ++row) {
    problem.q[row * dim] = rounded(static_cast<double>(row % queries + 1) / queries);
  }
  for (int64_t row = 0; row < batch * problem.kv_heads() * keys; ++row) {
    const int64_t key = row % keys;
    problem.k[row * dim] = rounded(rise * key / problem.scale);
    for (int64_t d = 0; d < dim; ++d) {
      problem.v[row * dim + d] = rounded((key * 7 + d * 3) % 11 / 10.0);
    }
  }
  check_finite(problem.k, "--ramp makes K", problem.dtype);
}

void scale_values(Problem& problem, double factor) {
  for (float& value : problem.v) {
    value = round_to(problem.dtype, static_cast<float>(value * factor));
  }
  check_finite(problem.v, "--v-scale makes V", problem.dtype);
}

int64_t elements_of(std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

std::vector<int64_t> like_q(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, s.heads, s.q, s.dim};
}
std::vector<int64_t> like_k(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, problem.kv_heads(), s.kv, s.dim};
}
std::vector<int64_t> rows_of_q(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, s.heads, s.q};
}

std::vector<int64_t> like_sinks(const Problem& problem) { return {std::ssize(problem.sinks)}; }

std::vector<float> random_values(std::span<const int64_t> shape, Dtype dtype, uint64_t seed,
                                 uint64_t number) {
  std::vector<float> values(elements_of(shape));
  fill(values, mix(~(3 * seed + number)), 1, dtype);  // no seed uses this stream for Q, K or V
  return values;
}

std::vector<float> load_values(const std::string& path, Dtype dtype,
                               std::span<const int64_t> shape) {
  std::array<int64_t, 4> sizes;
  std::vector<float> values = load(path, dtype, 1, sizes);
  if (!std::equal(sizes.begin(), sizes.end(), shape.begin(), shape.end())) {
    throw InputError(path + ": is " + bracketed(sizes) + ", expected " + bracketed(shape));
  }
  return values;
}

std::vector<float> random_sinks(const Problem& problem, uint64_t seed) {
  const Shape& shape = problem.shape;
  std::vector<float> sinks = random_values(std::vector<int64_t>{shape.heads}, Dtype::f32, seed, 1);
  const double score = 0.25 * static_cast<double>(shape.dim) * problem.scale;  // the mean
  for (float& sink : sinks) {
    sink += static_cast<float>(score + std::log(static_cast<double>(shape.kv)));
  }
  return sinks;
}

std::vector<float> load_sinks(const std::string& path, int64_t heads) {
  const NpyArray array = read_npy(path, {NpyType::f16, NpyType::f32});
  if (array.shape != std::vector<int64_t>{heads}) {
    throw InputError(path + ": is " + bracketed(array.shape) + ", expected " +
                     bracketed(std::vector<int64_t>{heads}) + ", a number for each head");
  }
  std::vector<float> values = array.floats();
  for (size_t head = 0; head < values.size(); ++head) {
    if (values[head] < INFINITY) continue;  // false for NaN
    throw InputError(path + ": the sink of head " + std::to_string(head) + " is " +
                     fa::shown(values[head]) + ": expected a finite number, or -inf for none");
  }
  return values;
}

Problem load_problem(const std::string& q, const std::string& k, const std::string& v, Dtype dtype,
                     double input_scale, bool* two_dimensional) {
  std::array<int64_t, 4> q_sizes, k_sizes, v_sizes;
  Problem problem;
  problem.dtype = dtype;
  problem.q = load(q, dtype, input_scale, q_sizes, two_dimensional);
  problem.k = load(k, dtype, 1, k_sizes);
  problem.v = load(v, dtype, 1, v_sizes);
  if (k_sizes != v_sizes) {
    throw InputError("K is " + bracketed(k_sizes) + " and V is " + bracketed(v_sizes) +
                     ": their shapes must be equal");
  }
  if (q_sizes[0] != k_sizes[0] || q_sizes[3] != k_sizes[3]) {
    throw InputError("Q is " + bracketed(q_sizes) + " and K is " + bracketed(k_sizes) +
                     ": batch and dim must be equal");
  }
  if (q_sizes[1] % k_sizes[1] != 0) {
    throw InputError("Q is " + bracketed(q_sizes) + " and K is " + bracketed(k_sizes) +
                     ": the heads of K must divide those of Q");
  }
  problem.group = q_sizes[1] / k_sizes[1];
  problem.shape = {q_sizes[0], q_sizes[1], q_sizes[2], k_sizes[2], q_sizes[3]};
  problem.scale = 1 / std::sqrt(static_cast<double>(problem.shape.dim));
  return problem;
}

}  // namespace fa
