#include "computed.hpp"

#include <algorithm>
#include <cmath>

#include "params.hpp"

namespace ch17 {
namespace {

using emulator::ch17::BLOCK_Q, emulator::ch17::block_kv;
using emulator::ch17::Q_GROUPS, emulator::ch17::k_groups;
using fa::Shape;

// Returns the group of a head that a row is in.
int64_t group_of(int64_t row, int64_t block, const Groups& groups, int scales) {
  if (scales == PER_HEAD) return 0;
  if (scales == PER_BLOCK) return row / block;
  if (scales == PER_WARP) return row / groups.tile;
  return row / groups.tile * groups.of_a_tile + row % 8 / groups.alike;
}

// Rounds one head, [rows, dim]. A group with a NaN or an Inf becomes NaN.
void round_head(std::span<float> head, int64_t dim, int64_t block, const Groups& groups,
                int scales) {
  const int64_t size = std::ssize(head);
  const auto group = [&](int64_t i) { return group_of(i / dim, block, groups, scales); };
  std::vector<float> largest(static_cast<size_t>(size));  // maximum per group; most entries are
                                                          // not used
  for (int64_t i = 0; i < size; ++i) {
    float& of_group = largest[group(i)];
    const float value = std::abs(head[i]);
    if (!std::isnan(of_group) && !(value <= of_group))
      of_group = std::isfinite(value) ? value : NAN;
  }
  for (int64_t i = 0; i < size; ++i) {
    float inverse = 127 / largest[group(i)];
    if (inverse > 0x1p120f) inverse = 0x1p120f;  // NaN stays NaN
    head[i] = std::nearbyint(head[i] * inverse) * (1 / inverse);
  }
}

}  // namespace

fa::Problem computed(const fa::Problem& problem, std::span<const int> options) {
  const Shape& s = problem.shape;
  const int scales = options.empty() ? static_cast<int>(PER_THREAD) : options[0];
  fa::Problem rounded = problem;
  rounded.lse_offset.assign(static_cast<size_t>(s.rows()), 0.0);
  std::vector<double> mean(static_cast<size_t>(s.dim));
  for (int64_t head = 0; head < s.batch * problem.kv_heads(); ++head) {
    const std::span keys(rounded.k.data() + head * s.kv * s.dim, s.kv * s.dim);
    std::fill(mean.begin(), mean.end(), 0.0);
    for (int64_t i = 0; i < s.kv * s.dim; ++i) mean[i % s.dim] += keys[i];
    for (double& value : mean) value /= static_cast<double>(s.kv);
    for (int64_t i = 0; i < s.kv * s.dim; ++i) keys[i] -= static_cast<float>(mean[i % s.dim]);
    round_head(keys, s.dim, block_kv(s.dim), k_groups(s.dim), scales);

    for (int64_t row = head * problem.group * s.q; row < (head + 1) * problem.group * s.q; ++row) {
      double product = 0;
      for (int64_t d = 0; d < s.dim; ++d) product += problem.q[row * s.dim + d] * mean[d];
      rounded.lse_offset[static_cast<size_t>(row)] = problem.scale * product;
    }
  }
  for (int64_t head = 0; head < s.batch * s.heads; ++head) {
    round_head({rounded.q.data() + head * s.q * s.dim, static_cast<size_t>(s.q * s.dim)}, s.dim,
               BLOCK_Q, Q_GROUPS, scales);
  }
  return rounded;
}

void prepare(fa::Problem& problem, std::span<const int> options) {
  if (options.size() < 3) return;
  const int64_t dim = problem.shape.dim;
  if (options[1] > 0) {
    const int64_t sizes[] = {dim};
    const std::vector<float> normal = fa::random_values(sizes, fa::Dtype::f32, 0, 17);
    for (size_t i = 0; i < problem.k.size(); ++i) {
      const float mean = static_cast<float>(options[1]) * normal[i % normal.size()];
      problem.k[i] = fa::round_to(problem.dtype, problem.k[i] + mean);
    }
  }
  if (options[2] > 1) {
    uint32_t state = 17;  // state of a linear congruential generator (Numerical Recipes)
    for (std::vector<float>* values : {&problem.q, &problem.k})
      for (float& value : *values) {
        state = state * 1664525u + 1013904223u;
        if (state / 4294968u == 0)
          value = fa::round_to(problem.dtype, value * static_cast<float>(options[2]));
      }
  }
}

int64_t workspace_bytes(const Shape& shape, int64_t kv_heads) {
  return emulator::ch17::workspace_of(nullptr, shape, kv_heads).bytes;
}

}  // namespace ch17
