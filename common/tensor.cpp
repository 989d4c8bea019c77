#include "common/tensor.hpp"

#include "common/error.hpp"

namespace fa {

std::string to_string(const Shape& shape) {
  std::string text;
  for (const int64_t size : {shape.batch, shape.heads, shape.q, shape.kv, shape.dim}) {
    text += (text.empty() ? "" : ",") + std::to_string(size);
  }
  return text;
}

std::string bracketed(std::span<const int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

void check_addressable(const Shape& shape, const std::string& what) {
  for (const int64_t length : {shape.q, shape.kv}) {
    int64_t elements = 1;
    for (const int64_t size : {shape.batch, shape.heads, length, shape.dim}) {
      if (elements > kMostElements / size) {
        throw InputError(what + ": a tensor of more than 2^40 elements");
      }
      elements *= size;
    }
  }
}

std::array<int64_t, 4> contiguous_strides(const std::array<int64_t, 4>& shape) {
  // Unsigned, so that sizes that have not been checked yet may wrap without undefined behaviour.
  const uint64_t heads = shape[1], length = shape[2], dim = shape[3];
  return {static_cast<int64_t>(heads * length * dim), static_cast<int64_t>(length * dim), shape[3],
          1};
}

bool is_contiguous(const TensorRef& tensor) {
  const std::array<int64_t, 4> expected = contiguous_strides(tensor.shape);
  for (size_t d = 0; d < 4; ++d) {
    if (tensor.shape[d] > 1 && tensor.strides[d] != expected[d]) return false;
  }
  return true;
}

int64_t extent(const TensorRef& tensor) {
  int64_t last = 0;
  for (size_t d = 0; d < 4; ++d) {
    const int64_t steps = tensor.shape[d] - 1, stride = tensor.strides[d];
    if (steps == 0) continue;
    if (stride < 0) throw InputError("a stride of " + std::to_string(stride) + ": at least 0");
    if (stride > 0 && steps > (kMostElements - last) / stride) {
      throw InputError("a tensor that spans more than 2^40 elements");
    }
    last += steps * stride;
  }
  return last + 1;
}

}  // namespace fa
