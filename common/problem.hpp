#pragma once
// An attention problem, which is O = softmax(scale · Q Kᵀ) V for every batch and head, and its
// tensors.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "common/masks.hpp"
#include "common/tensor.hpp"

namespace fa {

// The inputs. The values are fp32 numbers that were rounded to `dtype`, so that kernel and
// reference use the same numbers.
struct Problem : Masks {
  Shape shape;
  Dtype dtype = Dtype::f32;
  double scale = 1;               // 1/√dim by default
  int64_t group = 1;              // number of consecutive heads of Q that share a head of K and V
  std::vector<float> q;           // [batch, heads, q, dim]
  std::vector<float> k, v;        // [batch, kv_heads, kv, dim]
  std::vector<float> d_o = {};    // shape of Q, of a backward pass, the gradient of the loss by O
  std::vector<float> sinks = {};  // [heads], −inf for none, see sink_of; empty without sinks
  // Changes a score before the softmax. The result −inf hides the key. Empty means no change.
  std::function<double(double score, int64_t head, int64_t query, int64_t key)> modify_score = {};
  std::vector<double> lse_offset = {};  // [batch, heads, q], added to LSE, unless it is empty
  std::vector<double> v_mean = {};      // [batch, kv_heads, dim], added to each row of V
  // The kernel rounds the weights to e4m3, scaled so that the largest of a row is this number. With
  // 0 it rounds them to dtype.
  float e4m3_weight = 0;

  int64_t kv_heads() const { return shape.heads / group; }
  // Returns the logit that takes part in the sum of this head's softmax, and in nothing else.
  double sink_of(int64_t batch_head) const;
  int64_t kv_elements() const { return shape.kv_elements() / group; }  // size of K and of V
  Keys keys_of(int64_t batch, int64_t query) const;
};

// The tensors of a run, which are the inputs, and the outputs of the passes that it computes.
// Outputs are full of NaN before the run, so an unwritten element is visible.
struct Tensors : Problem {
  std::vector<float> o = {}, lse = {};           // [batch, heads, q, dim], [batch, heads, q]
  std::vector<float> dq = {}, dk = {}, dv = {};  // shapes of Q, K and V
  std::vector<float> d_sinks = {};               // [heads], empty without sinks
  bool two_dimensional = false;                  // files have the form [L,D]
};

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

// Returns values of a further tensor. `number` distinguishes several tensors of one seed.
std::vector<float> random_values(std::span<const int64_t> shape, Dtype dtype, uint64_t seed,
                                 uint64_t number);
std::vector<float> load_values(const std::string& path, Dtype dtype,
                               std::span<const int64_t> shape);
// Returns a sink for each head, near the log-sum-exp of a row of a random problem, where it matters
// most.
std::vector<float> random_sinks(const Problem& problem, uint64_t seed);
// Reads a number for each head, finite or −inf, from a .npy file [heads].
std::vector<float> load_sinks(const std::string& path, int64_t heads);

int64_t elements_of(std::span<const int64_t> shape);

// Return the shapes of tensors.
std::vector<int64_t> like_q(const Problem& problem);
std::vector<int64_t> like_k(const Problem& problem);
std::vector<int64_t> rows_of_q(const Problem& problem);   // [B,H,Lq]
std::vector<int64_t> like_sinks(const Problem& problem);  // [H]; [0] without sinks

}  // namespace fa
