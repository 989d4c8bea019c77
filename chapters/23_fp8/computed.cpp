#include "computed.hpp"

#include <algorithm>
#include <cmath>

#include "chapters/17_low_precision/computed.hpp"
#include "common/fp8.hpp"
#include "softmax.hpp"

namespace ch23 {
namespace {

using fa::Shape;

// Returns the factor for values of magnitude up to `largest`. NaN stays NaN.
float inverse_scale(float largest) {
  const float inverse = fa::kLargestE4m3 / largest;
  return inverse > 0x1p120f ? 0x1p120f : inverse;
}
float rounded(float value, float inverse) {
  return fa::to_float(fa::to_e4m3(value * inverse)) * (1 / inverse);
}

// Rounds a tile of rows with one scale. A NaN or an Inf makes all of it NaN.
void round_tile(std::span<float> tile) {
  float largest = 0;
  for (const float value : tile) {
    if (!std::isfinite(value)) largest = NAN;
    if (std::abs(value) > largest) largest = std::abs(value);
  }
  for (float& value : tile) value = rounded(value, inverse_scale(largest));
}
void round_head(std::span<float> head, int64_t tile_size) {
  for (int64_t begin = 0; begin < std::ssize(head); begin += tile_size)
    round_tile(head.subspan(begin, std::min(tile_size, std::ssize(head) - begin)));
}

// Subtracts the mean of every step-th row from each column of a head [rows, dim], and returns the
// means.
std::vector<double> take_mean(std::span<float> head, int64_t dim, int64_t step) {
  std::vector<double> mean(dim);
  const int64_t rows = std::ssize(head) / dim;
  for (int64_t i = 0; i < std::ssize(head); ++i)
    if (i / dim % step == 0) mean[i % dim] += head[i];
  for (double& value : mean) value /= static_cast<double>((rows + step - 1) / step);
  for (int64_t i = 0; i < std::ssize(head); ++i) head[i] -= static_cast<float>(mean[i % dim]);
  return mean;
}

}  // namespace

fa::Problem computed(const fa::Problem& problem, std::span<const int>) {
  const Shape& s = problem.shape;
  fa::Problem result = problem;
  result.e4m3_weight = std::exp2(emulator::ch23::REFERENCE);
  result.lse_offset.assign(s.rows(), 0.0);
  const int64_t size = s.kv * s.dim;
  for (int64_t head = 0; head < s.batch * problem.kv_heads(); ++head) {
    const std::span k(result.k.data() + head * size, size), v(result.v.data() + head * size, size);
    const std::vector<double> K_mean = take_mean(k, s.dim, emulator::ch23::step_of_K(s.kv)),
                              V_mean = take_mean(v, s.dim, 1);
    round_head(k, emulator::ch23::BLOCK_KV * s.dim);
    for (int64_t d = 0; d < s.dim; ++d) {
      float largest = 0;
      for (int64_t i = d; i < size; i += s.dim)
        largest = std::isfinite(v[i]) ? std::max(largest, std::abs(v[i])) : NAN;
      for (int64_t i = d; i < size; i += s.dim) v[i] = rounded(v[i], inverse_scale(largest));
      result.v_mean.push_back(V_mean[d]);
    }
    for (int64_t row = head * problem.group * s.q; row < (head + 1) * problem.group * s.q; ++row) {
      double product = 0;
      for (int64_t d = 0; d < s.dim; ++d) product += problem.q[row * s.dim + d] * K_mean[d];
      result.lse_offset[row] = problem.scale * product;
    }
  }
  for (int64_t head = 0; head < s.batch * s.heads; ++head) {
    round_head({result.q.data() + head * s.q * s.dim, static_cast<size_t>(s.q * s.dim)},
               emulator::ch23::WARPGROUP_Q * s.dim);
  }
  return result;
}

void prepare(fa::Problem& problem, std::span<const int> options) {
  ch17::prepare(problem, options);
  if (options.size() < 5) return;
  const Shape& s = problem.shape;
  const auto drift = static_cast<float>(options[3]);
  for (int64_t i = 0; drift > 0 && i < std::ssize(problem.v); ++i) {
    const float place = static_cast<float>(i / s.dim % s.kv) / static_cast<float>(s.kv);
    problem.v[i] = fa::round_to(problem.dtype, problem.v[i] + drift * (1 - 2 * place));
  }
  if (options[4] == 0) return;
  constexpr float kQuery = 8;
  const double key = options[4] / (problem.scale * kQuery);
  for (int64_t i = 0; i < std::ssize(problem.q); i += s.dim) problem.q[i] = kQuery;
  for (int64_t i = 0; i < std::ssize(problem.k); i += s.dim) {
    const bool first = i / s.dim % s.kv == 0;
    problem.k[i] = first ? fa::round_to(problem.dtype, static_cast<float>(key)) : 0.0f;
    if (first) std::fill_n(problem.v.begin() + i, s.dim, 0.0f);
  }
}

int64_t workspace_bytes(const Shape& shape, int64_t kv_heads) {
  return emulator::ch23::workspace_of(nullptr, shape, kv_heads).bytes;
}

}  // namespace ch23
