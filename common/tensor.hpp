#pragma once
// Tensors of attention: [batch, heads, length, dim].

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/half.hpp"

namespace fa {

// Sizes of one attention problem: Q and O are [batch, heads, q, dim], K and V [batch, heads, kv,
// dim].
struct Shape {
  int64_t batch = 1, heads = 1, q = 1, kv = 1, dim = 1;

  int64_t rows() const { return batch * heads * q; }   // query rows = rows of O
  int64_t q_elements() const { return rows() * dim; }  // of Q and of O
  int64_t kv_elements() const { return batch * heads * kv * dim; }
  // Two matrix products of 2·q·kv·dim operations each (halved by callers for causal).
  double flops() const { return 4.0 * batch * heads * q * kv * dim; }
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);  // "1,8,1024,1024,64"

inline constexpr int64_t kMostElements = int64_t{1} << 40;  // of one tensor

// Throws InputError if a tensor of this shape has more.
void check_addressable(const Shape& shape, const std::string& what);

// Key j is hidden from query i when j > i + (kv - q): the last query sees every key.
// Returns how many keys query i sees: keys [0, visible).
inline int64_t visible_keys(const Shape& shape, bool causal, int64_t query) {
  if (!causal) return shape.kv;
  const int64_t visible = query + (shape.kv - shape.q) + 1;
  return visible < 0 ? 0 : visible > shape.kv ? shape.kv : visible;
}

// A tensor in somebody's memory. Element [b, h, i, d] stands b * strides[0] + h * strides[1] +
// i * strides[2] + d * strides[3] elements behind `data`. No data: there is no tensor.
struct TensorRef {
  void* data = nullptr;
  Dtype dtype = Dtype::bf16;
  std::array<int64_t, 4> shape = {}, strides = {};
};

// The strides of a row-major tensor without gaps.
std::array<int64_t, 4> contiguous_strides(const std::array<int64_t, 4>& shape);
// Dimensions of size 1 have no stride that matters.
bool is_contiguous(const TensorRef& tensor);

// Elements from the first to behind the last: its size in memory, gaps included. Throws InputError
// for a negative stride, and for more than kMostElements.
int64_t extent(const TensorRef& tensor);

// A non-owning matrix, row-major and contiguous: [rows, cols].
template <class T>
struct View {
  T* data;
  int64_t rows, cols;

  T* row(int64_t i) const { return data + i * cols; }
  T& operator()(int64_t i, int64_t j) const { return data[i * cols + j]; }
  operator View<const T>() const { return {data, rows, cols}; }
};

// The [rows, cols] matrix of one (batch, head) pair, numbered batch * heads + head.
template <class T>
View<T> head(T* tensor, int64_t batch_head, int64_t rows, int64_t cols) {
  return {tensor + batch_head * rows * cols, rows, cols};
}

}  // namespace fa
