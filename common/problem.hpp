#pragma once
// An attention problem: O = softmax(scale · Q Kᵀ) V for every batch and head.
//
// Packed sequences are stored one after the other in one batch, [1, heads, sum of lengths, dim].
// Queries see only the keys of their own sequence. Sequence n is rows [q_starts[n], q_starts[n +
// 1]) of Q, and likewise of K and V.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "common/tensor.hpp"

namespace fa {

// The keys [begin, end) that a query may see, and the key at the query's position. The last query
// of a sequence has the position of the sequence's last key. The range can be empty.
struct Keys {
  int64_t begin, end, diagonal;
};

// The tensors and the mask of a problem. The values are fp32 numbers that were rounded to `dtype`,
// so that kernel and reference use the same numbers.
struct Problem {
  Shape shape;
  Dtype dtype = Dtype::f32;
  double scale = 1;  // 1/√dim by default
  bool causal = false;
  std::vector<float> q;                       // [batch, heads, q, dim]
  std::vector<float> k, v;                    // [batch, kv_heads, kv, dim]
  std::vector<std::vector<float>> more = {};  // inputs that only some operations have
  // Changes a score before the softmax. The result −inf hides the key. Empty: no change.
  std::function<double(double score, int64_t head, int64_t query, int64_t key)> modify_score = {};
  int64_t group = 1;  // number of consecutive heads of Q that share a head of K and V
  // A query sees the keys from window_left before its own position to window_right after it. -1
  // means no limit. `causal` is a window_right of 0.
  int64_t window_left = -1, window_right = -1;
  std::vector<int64_t> q_starts = {}, kv_starts = {};  // of packed sequences; empty: not packed
  std::vector<int64_t> lengths = {};  // [batch]: keys of each sequence, a prefix of K; empty: all
  double softcap = 0;  // c: a score s becomes c tanh(s / c) before the mask; 0: unchanged
  std::vector<double> lse_offset = {};  // [batch, heads, q], added to LSE; empty: nothing
  std::vector<double> v_mean = {};      // [batch, kv_heads, dim], added to each row of V
  // The kernel rounds the weights to e4m3, scaled so that the largest of a row is this number. 0:
  // it rounds them to dtype.
  float e4m3_weight = 0;
  bool alibi = false;  // subtract alibi_slope(head) times the distance from each score

  int64_t kv_heads() const { return shape.heads / group; }
  int64_t kv_elements() const { return shape.kv_elements() / group; }  // of K and of V
  int64_t right() const { return causal ? 0 : window_right; }
  Keys keys_of(int64_t batch, int64_t query) const;
};

// Returns ALiBi's slope of a head (Press, Smith and Lewis 2021), as get_slopes in their code. With
// p as the largest power of two that is at most `heads`, the first p slopes are
//   2^(-8 (head + 1) / p).
// The heads from p on have the slopes halfway between these, starting with the first:
//   2^(-8 (head - p + 1/2) / p).
double alibi_slope(int64_t head, int64_t heads);

// Throws InputError if `group` does not divide the heads, a window is neither a length nor -1, the
// starts of packed sequences do not rise from 0 to the lengths of Q and K or differ in number, or a
// sequence with its own length has more keys than K.
void check_mask(const Problem& problem);

// Returns a problem with normally distributed values, mean 0.5 and deviation 1. O then has a mean
// that is not zero, so relative errors are meaningful. The same seed gives the same values on every
// machine. `input_scale` multiplies Q, which makes the softmax sharper. Throws InputError if memory
// is too small.
Problem random_problem(const Shape& shape, Dtype dtype, uint64_t seed, double input_scale = 1,
                       int64_t group = 1);

// Replaces Q, K and V so that every head's scores rise with the key. With the default scale, the
// score of key j is `rise` * j for the last query, and proportionally less for earlier queries. V
// is from 0 to 1. Throws InputError if a value is too large for the type.
void make_ramp(Problem& problem, double rise);

// Multiplies V by a factor. Throws InputError if a value becomes too large for the type.
void scale_values(Problem& problem, double factor);

// Reads Q, K and V from .npy files (float16 or float32, [B,H,L,D] or [L,D]). Throws InputError if a
// file cannot be read, if shapes do not fit together, or if a value is not finite.
// `*two_dimensional` becomes true if Q has the form [L,D].
Problem load_problem(const std::string& q, const std::string& k, const std::string& v, Dtype dtype,
                     double input_scale, bool* two_dimensional);

// Returns a further input of an operation, of this shape. `number` distinguishes several inputs.
std::vector<float> random_values(std::span<const int64_t> shape, Dtype dtype, uint64_t seed,
                                 uint64_t number);
std::vector<float> load_values(const std::string& path, Dtype dtype,
                               std::span<const int64_t> shape);

int64_t elements_of(std::span<const int64_t> shape);

}  // namespace fa
