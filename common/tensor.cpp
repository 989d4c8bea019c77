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

}  // namespace fa
