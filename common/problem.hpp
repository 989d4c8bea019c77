#pragma once
// One attention problem: O = softmax(scale · Q Kᵀ) V for every batch and head.
//
// Packed sequences lie one behind the other in one batch, [1, heads, sum of lengths, dim]; none
// sees another's keys. Sequence n is rows [q_starts[n], q_starts[n + 1]) of Q and, likewise, of K
// and V.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "common/tensor.hpp"

namespace fa {

// The keys that a query may see, [begin, end), none if that is empty; and the one that it stands
// at: the last query of a sequence is aligned with the sequence's last key.
struct Keys {
  int64_t begin, end, diagonal;
};

// The values are kept as fp32 but have been rounded to `dtype`, so that kernel and reference start
// from the same numbers.
struct Problem {
  Shape shape;
  Dtype dtype = Dtype::f32;
  double scale = 1;  // 1/√dim unless the user chose another
  bool causal = false;
  std::vector<float> q;                       // [batch, heads, q, dim]
  std::vector<float> k, v;                    // [batch, kv_heads, kv, dim]
  std::vector<std::vector<float>> more = {};  // inputs that only some operations have
  // Changes a score before softmax sees it; −inf hides the key. Empty: none.
  std::function<double(double score, int64_t head, int64_t query, int64_t key)> modify_score = {};
  int64_t group = 1;  // consecutive heads of Q that share a head of K and V
  // A query sees the keys from window_left before the key that it is aligned with to window_right
  // after; -1: no limit. `causal` is a window_right of 0.
  int64_t window_left = -1, window_right = -1;
  std::vector<int64_t> q_starts = {}, kv_starts = {};  // of packed sequences; empty: not packed
  std::vector<int64_t> lengths = {};  // [batch]: keys of each sequence, the first of K; empty: all
  double softcap = 0;  // c: a score s becomes c tanh(s / c), before the mask; 0: it stays
  std::vector<double> lse_offset = {};  // [batch, heads, q]: to be added to LSE; empty: nothing
  std::vector<double> v_mean = {};      // [batch, kv_heads, dim]: likewise to each row of V
  // The weights are rounded to e4m3 in the kernel, the largest of a row as this number; 0: to
  // dtype.
  float e4m3_weight = 0;
  bool alibi = false;  // then a score loses alibi_slope(head) for each key of distance

  int64_t kv_heads() const { return shape.heads / group; }
  int64_t kv_elements() const { return shape.kv_elements() / group; }  // of K and of V
  int64_t right() const { return causal ? 0 : window_right; }
  Keys keys_of(int64_t batch, int64_t query) const;
};

// ALiBi's slope of a head (Press, Smith and Lewis 2021), by get_slopes in their code:
// 2^(-8 (head + 1) / p), where p is the largest power of two that is at most `heads`. The heads
// from p on have the slopes halfway between those, from the first on: 2^(-8 (head - p + 1/2) / p).
double alibi_slope(int64_t head, int64_t heads);

// Throws InputError unless `group` divides the heads, the windows are lengths or -1, the starts of
// packed sequences go from 0 up to the lengths of Q and K, as many of both, and each sequence that
// has a length of its own has at most the keys that are there.
void check_mask(const Problem& problem);

// Normally distributed values with mean 0.5 and deviation 1: O then has a mean that is not zero, so
// a relative error means something. The same seed gives the same values on every machine.
// `input_scale` multiplies Q: softmax becomes sharper. Throws InputError if memory cannot hold it.
Problem random_problem(const Shape& shape, Dtype dtype, uint64_t seed, double input_scale = 1,
                       int64_t group = 1);

// Replaces Q, K and V so that every head's scores rise with the key: under the default scale the
// score of key j is `rise` * j in the last query, and evenly less in the queries before it. V is
// from 0 to 1. Throws InputError if a value is too large for the type.
void make_ramp(Problem& problem, double rise);

// Multiplies V. Throws InputError if a value becomes too large for the type.
void scale_values(Problem& problem, double factor);

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
