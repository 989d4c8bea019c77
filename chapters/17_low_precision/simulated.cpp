#include "simulated.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/error.hpp"
#include "common/fp8.hpp"
#include "common/parallel.hpp"
#include "common/tensor_core.hpp"
#include "number_types.hpp"

namespace ch17 {
namespace {

constexpr int kTile = 64;                                   // keys that a kernel loads at a time
constexpr int kProducts = fa::kSumRule<fa::e4m3>.products;  // products per wgmma
constexpr float kLargestInt8 = 127;

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (!(std::abs(value) <= largest)) largest = std::abs(value);  // keeps a NaN
    if (std::isnan(largest)) break;
  }
  return largest;
}

float round_as(Format format, float value) {
  switch (format) {
    case Format::BF16:
      return fa::to_float(fa::to_bf16(value));
    case Format::FP16:
      return fa::to_float(fa::to_fp16(value));
    default:
      return fa::to_float(fa::to_e4m3(value));
  }
}

// Rounds the rows of a block format. Blocks run along the dimension of the sum.
void round_rows(std::span<float> x, int64_t length, Format format, float tensor_scale) {
  for (size_t begin = 0; begin < x.size(); begin += length) {
    const auto row = x.subspan(begin, length);
    if (format == Format::MXFP8) round_mxfp8(row);
    if (format == Format::NVFP4) round_nvfp4(row, tensor_scale);
  }
}

// Rounds Q or K in place. Returns the scale of each row.
std::vector<float> round_operand(std::span<float> x, int64_t dim, const Scheme& scheme,
                                 bool is_query) {
  switch (scheme.qk) {
    case Format::BF16:
    case Format::FP16:
      for (float& value : x) value = round_as(scheme.qk, value);
      break;
    case Format::INT8:
    case Format::E4M3:
      return quantize(x, dim, scheme.qk, scheme.grain, is_query);
    case Format::MXFP8:
    case Format::NVFP4:
      round_rows(x, dim, scheme.qk, nvfp4_tensor_scale(largest_of(x)));
  }
  return std::vector<float>(x.size() / dim, 1.0f);
}

// Transposes [rows, columns] to [columns, rows], with each row padded with zeros to `stride`.
std::vector<float> transposed(std::span<const float> x, int64_t rows, int64_t columns,
                              int64_t stride) {
  std::vector<float> result(columns * stride);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) result[c * stride + r] = x[r * columns + c];
  return result;
}

// V, rounded: [keys, dim], and the scale of its sums.
struct Values {
  std::vector<float> v;
  float scale = 1;
  std::vector<float> mean = {};  // [dim]: added to O at the end
};

Values round_values(const Scheme& scheme, const Head& head, int64_t padded) {
  Values values{head.v};
  if (scheme.pv == Format::MXFP8 || scheme.pv == Format::NVFP4) {
    const float tensor_scale = nvfp4_tensor_scale(largest_of(head.v));
    auto columns = transposed(head.v, head.keys, head.dim, padded);
    round_rows(columns, padded, scheme.pv, tensor_scale);
    values.v = transposed(columns, head.dim, padded, head.dim);
    return values;
  }
  values.mean.assign(head.dim, 0.0f);
  if (scheme.smooth_v) values.mean = smooth(values.v, head.dim);
  if (scheme.pv == Format::E4M3) {
    const float largest = largest_of(values.v);
    if (largest != 0)
      values.scale = std::max(largest / fa::kLargestE4m3, std::numeric_limits<float>::denorm_min());
    for (float& x : values.v) x /= values.scale;
  }
  for (float& x : values.v) x = round_as(scheme.pv, x);
  values.v.resize(padded * head.dim);
  return values;
}

void round_weights(const Scheme& scheme, std::span<float> p) {
  switch (scheme.pv) {
    case Format::MXFP8:
      round_mxfp8(p);
      break;
    case Format::NVFP4:  // 1 is the largest possible weight
      round_nvfp4(p, nvfp4_tensor_scale(1));
      break;
    default:
      for (float& x : p) x = round_as(scheme.pv, x * scheme.p_largest);
  }
}

}  // namespace

std::span<const Scheme> schemes() {
  using enum Format;
  using enum Grain;
  static const std::vector<Scheme> list = [] {
    std::vector<Scheme> all;
    all.push_back({.name = "fp16", .qk = FP16, .pv = FP16, .cited = 1.9e-4});
    all.push_back({.name = "bf16"});
    const std::pair<const char*, Grain> grains[] = {
        {"tensor", TENSOR}, {"block", BLOCK}, {"warp", WARP}, {"thread", THREAD}};
    for (const bool smooth : {false, true}) {
      for (const auto& [name, grain] : grains) {
        all.push_back({.name = std::string("int8-") + name + (smooth ? "-smooth" : ""),
                       .qk = INT8,
                       .grain = grain,
                       .smooth = smooth});
      }
    }
    const auto fp8 = [&](const char* name, Scheme scheme) {
      scheme.name = name;
      scheme.qk = scheme.pv = E4M3;
      all.push_back(scheme);
    };
    fp8("fp8-tensor", {.p_largest = 256, .cited = 2.4e-2});
    fp8("fp8-block", {.grain = BLOCK, .p_largest = 256, .cited = 2.4e-2});
    fp8("fp8-block-smooth", {.grain = BLOCK, .smooth = true, .p_largest = 256});
    fp8("fp8-tensor-hadamard", {.hadamard = true, .p_largest = 256, .cited = 9.3e-3});
    fp8("fp8-block-hadamard",
        {.grain = BLOCK, .hadamard = true, .p_largest = 256, .cited = 9.1e-3});
    fp8("fp8-block-smooth-hadamard",
        {.grain = BLOCK, .smooth = true, .hadamard = true, .p_largest = 256});
    fp8("fp8-block-unscaled", {.grain = BLOCK, .p_largest = 1});
    fp8("fp8-block-one-level", {.grain = BLOCK, .p_largest = 256, .stay = 0});
    fp8("fp8-block-1024-keys", {.grain = BLOCK, .p_largest = 256, .stay = 16});
    fp8("fp8-kernel",
        {.grain = BLOCK, .smooth = true, .p_largest = 32, .stay = 2, .smooth_v = true});
    all.push_back({.name = "fp8-qk-only", .qk = E4M3, .grain = BLOCK});
    all.push_back({.name = "mxfp8", .qk = MXFP8, .pv = MXFP8});
    all.push_back({.name = "nvfp4-qk-only", .qk = NVFP4});
    all.push_back({.name = "nvfp4", .qk = NVFP4, .pv = NVFP4});
    all.push_back({.name = "nvfp4-smooth", .qk = NVFP4, .smooth = true, .pv = NVFP4});
    return all;
  }();
  return list;
}

std::vector<float> smooth(std::span<float> k, int64_t dim) {
  const int64_t keys = std::ssize(k) / dim;
  std::vector<float> means;
  for (int64_t d = 0; d < dim; ++d) {
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) sum += k[j * dim + d];
    const float mean = static_cast<float>(sum / static_cast<double>(keys));
    for (int64_t j = 0; j < keys; ++j) k[j * dim + d] -= mean;
    means.push_back(mean);
  }
  return means;
}

void rotate(std::span<float> x, int64_t dim, uint64_t seed) {
  if (!std::has_single_bit(static_cast<uint64_t>(dim))) {
    throw fa::InputError("a Hadamard rotation of dim " + std::to_string(dim) +
                         ": expected a power of two");
  }
  std::vector<double> sign(dim), row(dim);
  uint64_t state = 2 * seed + 1;  // the state of xorshift64* must not be 0 (Marsaglia 2003, Vigna
                                  // 2016)
  for (double& one : sign) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    one = (state * 0x2545f4914f6cdd1du) >> 63 ? -1 : 1;
  }
  const double norm = 1 / std::sqrt(static_cast<double>(dim));
  for (size_t begin = 0; begin < x.size(); begin += dim) {
    for (int64_t d = 0; d < dim; ++d) row[d] = sign[d] * x[begin + d];
    for (int64_t half = 1; half < dim; half *= 2) {
      for (int64_t d = 0; d < dim; ++d) {
        if (d & half) continue;
        const double a = row[d], b = row[d + half];
        row[d] = a + b, row[d + half] = a - b;
      }
    }
    for (int64_t d = 0; d < dim; ++d) x[begin + d] = static_cast<float>(row[d] * norm);
  }
}

std::vector<float> quantize(std::span<float> x, int64_t dim, Format format, Grain grain,
                            bool is_query) {
  const int64_t rows = std::ssize(x) / dim;
  std::vector<float> scales(rows, 1.0f);
  int64_t tile = rows, groups = 1;  // rows per tile, groups per tile
  if (grain != Grain::TENSOR) tile = !is_query ? 64 : grain == Grain::BLOCK ? 128 : 32;
  if (grain == Grain::THREAD) groups = is_query ? 8 : 4;
  const auto group_of = [&](int64_t row) { return row % 8 * groups / 8; };
  for (int64_t first = 0; first < rows; first += tile) {
    const int64_t end = std::min(first + tile, rows);
    for (int64_t group = 0; group < groups; ++group) {
      float largest = 0;
      for (int64_t r = first; r < end; ++r) {
        if (group_of(r) != group) continue;
        const float of_row = largest_of(x.subspan(r * dim, dim));
        if (std::isnan(of_row) || of_row > largest) largest = of_row;
      }
      if (largest == 0) continue;
      const float most = format == Format::INT8 ? kLargestInt8 : fa::kLargestE4m3;
      // Finite, because otherwise 0 times it would be NaN: `largest` may be subnormal.
      const float inverse = std::min(most / largest, std::numeric_limits<float>::max());
      for (int64_t r = first; r < end; ++r) {
        if (group_of(r) != group) continue;
        scales[r] = largest / most;
        for (float& value : x.subspan(r * dim, dim)) {
          const float code = value * inverse;
          value = format == Format::INT8 ? std::nearbyint(code) : round_as(format, code);
        }
      }
    }
  }
  return scales;
}

std::vector<double> exact_attention(const Head& head, std::span<const int64_t> rows) {
  const int64_t dim = head.dim;
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  std::vector<double> o(rows.size() * dim, std::numeric_limits<double>::quiet_NaN());
  fa::parallel_for(std::ssize(rows), 0, [&](int64_t n, int) {
    std::vector<double> p(head.keys);
    for (int64_t j = 0; j < head.keys; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < dim; ++d)
        dot += double{head.q[rows[n] * dim + d]} * double{head.k[j * dim + d]};
      p[j] = dot * scale;
    }
    const double m = *std::max_element(p.begin(), p.end());
    double l = 0;
    for (double& s : p) l += s = std::exp(s - m);
    std::vector<double> sums(dim);
    for (int64_t j = 0; j < head.keys; ++j)
      for (int64_t d = 0; d < dim; ++d) sums[d] += p[j] * head.v[j * dim + d];
    for (int64_t d = 0; d < dim; ++d) o[n * dim + d] = sums[d] / l;
  });
  return o;
}

std::vector<float> low_precision_attention(const Scheme& scheme, const Head& head,
                                           std::span<const int64_t> rows, uint64_t seed) {
  const int64_t dim = head.dim, padded = (head.keys + kTile - 1) / kTile * kTile;
  const int64_t depth = (dim + kProducts - 1) / kProducts * kProducts;
  std::vector<float> q = head.q, k = head.k;
  if (scheme.smooth) smooth(k, dim);
  if (scheme.hadamard) {
    rotate(q, dim, seed);
    rotate(k, dim, seed);
  }
  const auto q_scales = round_operand(q, dim, scheme, true);
  const auto k_scales = round_operand(k, dim, scheme, false);
  auto k_t = transposed(k, head.keys, dim, padded);
  k_t.resize(depth * padded);  // zeros up to the tensor core's depth
  const Values values = round_values(scheme, head, padded);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const bool tensor_core_sums = scheme.pv == Format::E4M3;
  std::vector<float> o(rows.size() * dim, std::numeric_limits<float>::quiet_NaN());

  fa::parallel_for(std::ssize(rows), 0, [&](int64_t n, int) {
    std::vector<float> q_row(depth), O(dim), core(dim);  // core, the sums in the tensor core
    const bool leaves = tensor_core_sums && scheme.stay > 0;
    std::copy_n(q.begin() + rows[n] * dim, dim, q_row.begin());
    float m = -HUGE_VALF, l = 0;
    for (int64_t first = 0; first < head.keys; first += kTile) {
      const int count = static_cast<int>(std::min<int64_t>(kTile, head.keys - first));
      const float* const k_tile = k_t.data() + first;
      const float* const v_tile = values.v.data() + first * dim;

      float S[kTile] = {};  // S = Q @ K.T
      if (scheme.qk == Format::E4M3) {
        for (int64_t d = 0; d < depth; d += kProducts)
          fa::tensor_core_add<fa::e4m3>(S, kTile, k_tile + d * padded, padded, q_row.data() + d);
      } else {
        double sums[kTile] = {};
        for (int64_t d = 0; d < dim; ++d)
          for (int j = 0; j < kTile; ++j) sums[j] += double{q_row[d]} * k_tile[d * padded + j];
        for (int j = 0; j < kTile; ++j) S[j] = static_cast<float>(sums[j]);
      }

      float m_new = m;
      for (int j = 0; j < count; ++j) {
        S[j] *= q_scales[rows[n]] * k_scales[first + j] * scale;
        if (!(S[j] <= m_new)) m_new = S[j];
      }
      const float rescale = static_cast<float>(std::exp(double{m} - double{m_new}));
      m = m_new;
      float P[kTile] = {};  // P = exp(S - m), l = l * exp(m - m') + rowsum P
      double sum = 0;
      for (int j = 0; j < count; ++j) {
        P[j] = static_cast<float>(std::exp(double{S[j]} - double{m}));
        sum += P[j];
      }
      l = static_cast<float>(double{l} * rescale + sum);
      round_weights(scheme, P);

      for (float& x : O) x *= rescale;  // O = O * exp(m - m') + P @ V
      if (tensor_core_sums) {
        for (float& x : core) x *= rescale;
        for (int j = 0; j < kTile; j += kProducts) {
          fa::tensor_core_add<fa::e4m3>(core.data(), static_cast<int>(dim), v_tile + j * dim, dim,
                                        P + j);
        }
        if (leaves && (first / kTile + 1) % scheme.stay == 0) {
          for (int64_t d = 0; d < dim; ++d) O[d] += core[d];
          std::fill(core.begin(), core.end(), 0.0f);
        }
      } else {
        std::vector<double> sums(O.begin(), O.end());
        for (int j = 0; j < count; ++j)
          for (int64_t d = 0; d < dim; ++d) sums[d] += double{P[j]} * v_tile[j * dim + d];
        for (int64_t d = 0; d < dim; ++d) O[d] = static_cast<float>(sums[d]);
      }
    }
    const Format out = scheme.pv == Format::FP16 ? Format::FP16 : Format::BF16;
    const double factor = double{values.scale} / (double{l} * double{scheme.p_largest});
    for (int64_t d = 0; d < dim; ++d) {
      const float sum = O[d] + core[d];
      const float mean = values.mean.empty() ? 0.0f : values.mean[d];
      o[n * dim + d] = round_as(out, static_cast<float>(sum * factor + double{mean}));
    }
  });
  return o;
}

}  // namespace ch17
