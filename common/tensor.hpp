#pragma once
// Shapes and views of attention's tensors [batch, heads, length, dim].

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/half.hpp"

namespace fa {

// Sizes of one attention problem, where Q and O are [batch, heads, q, dim], K and V [batch, heads,
// kv, dim].
struct Shape {
  int64_t batch = 1, heads = 1, q = 1, kv = 1, dim = 1;

  int64_t rows() const { return batch * heads * q; }   // query rows, as many as rows of O
  int64_t q_elements() const { return rows() * dim; }  // size of Q and of O
  int64_t kv_elements() const { return batch * heads * kv * dim; }
  // Two matrix products of 2·q·kv·dim operations each. Callers halve it for causal attention.
  double flops() const { return 4.0 * batch * heads * q * kv * dim; }
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);  // "1,8,1024,1024,64"

std::string bracketed(std::span<const int64_t> numbers);  // "[1, 8, 1024, 64]"

inline constexpr int64_t kMostElements = int64_t{1} << 40;  // per tensor

// Throws InputError if a tensor of this shape has more than kMostElements.
void check_addressable(const Shape& shape, const std::string& what);

// Returns how many keys query i sees, which are keys [0, visible). Key j is masked from query i
// when j > i + (kv - q), so the last query sees every key.
inline int64_t visible_keys(const Shape& shape, bool causal, int64_t query) {
  if (!causal) return shape.kv;
  const int64_t visible = query + (shape.kv - shape.q) + 1;
  return visible < 0 ? 0 : visible > shape.kv ? shape.kv : visible;
}

// A non-owning reference to a tensor. Element [b, h, i, d] is at data + b * strides[0] + h *
// strides[1] + i * strides[2] + d * strides[3], counted in elements. If `data` is null, there is no
// tensor.
struct TensorRef {
  void* data = nullptr;
  Dtype dtype = Dtype::bf16;
  std::array<int64_t, 4> shape = {}, strides = {};
};

// Returns the strides of a row-major tensor without gaps.
std::array<int64_t, 4> contiguous_strides(const std::array<int64_t, 4>& shape);
// True if the tensor is row-major without gaps. The strides of dimensions of size 1 do not matter.
bool is_contiguous(const TensorRef& tensor);

// Returns the number of elements from the first to the last, including gaps. Throws InputError for
// a negative stride and for more than kMostElements.
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

// Returns the [rows, cols] matrix of one (batch, head) pair, numbered batch * heads + head.
template <class T>
View<T> head(T* tensor, int64_t batch_head, int64_t rows, int64_t cols) {
  return {tensor + batch_head * rows * cols, rows, cols};
}

}  // namespace fa
