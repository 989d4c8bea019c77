#pragma once
// Tiles of the backward pass on the CPU, with their number types, the three forms of a matrix
// product, and the traffic between slow memory (the tensors) and fast memory (the tiles).

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/half.hpp"

namespace fa::ch10 {

// Sums, S, P, LSE and D are fp32 for every element type T, as on the tensor cores. With float64,
// for checks, everything is float64.
template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class R>
inline constexpr R kInfinity = std::numeric_limits<R>::infinity();

template <class T>
Real<T> widened(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return to_float(x);
  }
}

template <class T>
T narrowed(Real<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return from_float<T>(x);
  }
}

// Returns the value of `x` after it has been stored as a T.
template <class T>
Real<T> rounded(Real<T> x) {
  return widened<T>(narrowed<T>(x));
}

// Positions [begin, end) of queries or keys.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

struct Tiling {
  int64_t block_q = 64, block_kv = 64;
};

inline int64_t tiles_in(int64_t length, int64_t block) { return (length + block - 1) / block; }

inline Range tile_range(int64_t tile, int64_t block, int64_t length) {
  return {tile * block, std::min((tile + 1) * block, length)};
}

// ---- products ----

// Returns Σ a[d] · b[d] in eight partial sums, because one long sum would wait for each addition.
template <class R>
R dot(const R* a, const R* b, int64_t count) {
  R sums[8] = {};
  int64_t d = 0;
  for (; d + 8 <= count; d += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += a[d + lane] * b[d + lane];
  }
  for (; d < count; ++d) sums[0] += a[d] * b[d];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// C = A @ B.T    [rows, cols] = [rows, depth] @ [cols, depth].T
template <class R>
void multiply_transposed(R* C, const R* A, const R* B, int64_t rows, int64_t cols, int64_t depth) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) C[i * cols + j] = dot(A + i * depth, B + j * depth, depth);
  }
}

// C += A @ B [rows, cols] += [rows, depth] @ [depth, cols], an inner product, where one row of A
// completes one row of the sum
template <class R>
void add_inner(R* C, const R* A, const R* B, int64_t rows, int64_t depth, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < cols; ++j) C[i * cols + j] += A[i * depth + k] * B[k * cols + j];
    }
  }
}

// C += A.T @ B [rows, cols] += [depth, rows].T @ [depth, cols], an outer product, where one row of
// A adds to all of C
template <class R>
void add_outer(R* C, const R* A, const R* B, int64_t rows, int64_t depth, int64_t cols) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) C[i * cols + j] += A[k * rows + i] * B[k * cols + j];
    }
  }
}

// ---- traffic ----

enum class Tensor { Q, K, V, O, dO, LSE, D, dQ, dK, dV, S, P, dP, dS };
inline constexpr const char* kTensorNames[] = {"Q",  "K",  "V",  "O", "dO", "LSE", "D",
                                               "dQ", "dK", "dV", "S", "P",  "dP",  "dS"};
inline constexpr size_t kTensors = std::size(kTensorNames);
using Bytes = std::array<int64_t, kTensors>;  // per tensor

inline int64_t total(const Bytes& bytes) {
  int64_t sum = 0;
  for (const int64_t one : bytes) sum += one;
  return sum;
}

// A pair of a query tile and a key tile, or the work before and after all of them, with the bytes
// that are loaded before it and stored after it.
struct Step {
  const char* phase;
  int64_t head;  // batch * heads + head, of Q
  Range queries, keys;
  Bytes loads, stores;
};

// Traffic between slow and fast memory, and the number of pairs of tiles.
struct Traffic {
  Bytes read{}, written{};
  int64_t tiles = 0, tiles_skipped = 0;  // computed, and fully masked
  int64_t products = 0;                  // matrix products in all pairs of tiles
  bool traced = false;
  std::vector<Step> steps;  // if traced

  // Loads belong to the next step, stores to the last one.
  void load(Tensor tensor, int64_t bytes) {
    read[static_cast<size_t>(tensor)] += bytes;
    loads_[static_cast<size_t>(tensor)] += bytes;
  }
  void step(const char* phase, int64_t head, Range queries, Range keys) {
    const Bytes loads = std::exchange(loads_, {});
    if (traced) steps.push_back({phase, head, queries, keys, loads, {}});
  }
  void store(Tensor tensor, int64_t bytes) {
    written[static_cast<size_t>(tensor)] += bytes;
    if (traced) steps.back().stores[static_cast<size_t>(tensor)] += bytes;
  }

  Traffic& operator+=(const Traffic& other) {
    for (size_t i = 0; i < kTensors; ++i) {
      read[i] += other.read[i];
      written[i] += other.written[i];
    }
    tiles += other.tiles;
    tiles_skipped += other.tiles_skipped;
    products += other.products;
    steps.insert(steps.end(), other.steps.begin(), other.steps.end());
    return *this;
  }

 private:
  Bytes loads_{};  // since the last step
};

}  // namespace fa::ch10
