#include "common/tensor_map.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/error.hpp"

namespace fa {

uint32_t TensorBox::box_bytes() const {
  auto bytes = static_cast<uint32_t>(element_bytes);
  for (int i = 0; i < rank; ++i) bytes *= static_cast<uint32_t>(box[i]);
  return bytes;
}

TensorBox make_tensor_box(const void* data, int element_bytes, std::initializer_list<int64_t> sizes,
                          std::initializer_list<int64_t> strides, std::initializer_list<int> box,
                          Swizzle swizzle) {
  constexpr int64_t kAlignment = 16;
  constexpr int64_t kMaxSize = int64_t{1} << 32, kMaxStride = int64_t{1} << 40;
  constexpr int kMaxBox = 256;
  const auto refuse = [](const std::string& why) -> void {
    throw InputError("tensor map: " + why);
  };
  const auto number = [](auto n) { return std::to_string(n); };
  const size_t rank = sizes.size();
  if (rank < 1 || rank > TensorBox::kMaxRank) {
    refuse(number(rank) + " dimensions: 1 to 5 are possible");
  }
  if (strides.size() + 1 != rank || box.size() != rank) {
    refuse(number(rank) + " sizes need " + number(rank - 1) +
           " strides and a box of as many sizes, not " + number(strides.size()) + " and " +
           number(box.size()));
  }
  if (reinterpret_cast<uintptr_t>(data) % kAlignment != 0) {
    refuse("the tensor's address is not a multiple of 16");
  }
  TensorBox result;
  result.data = data;
  result.element_bytes = element_bytes;
  result.rank = static_cast<int>(rank);
  result.swizzle = swizzle;
  std::copy(sizes.begin(), sizes.end(), result.sizes);
  result.strides[0] = element_bytes;
  std::copy(strides.begin(), strides.end(), result.strides + 1);
  std::copy(box.begin(), box.end(), result.box);
  for (int i = 0; i < result.rank; ++i) {
    const std::string dimension = "dimension " + number(i) + ": ";
    if (result.sizes[i] < 1 || result.sizes[i] > kMaxSize) {
      refuse(dimension + number(result.sizes[i]) + " elements: 1 to 2^32 are possible");
    }
    if (result.box[i] < 1 || result.box[i] > kMaxBox) {
      refuse(dimension + "a box of " + number(result.box[i]) + ": 1 to 256 are possible");
    }
    if (i > 0 && (result.strides[i] < kAlignment || result.strides[i] % kAlignment != 0 ||
                  result.strides[i] >= kMaxStride)) {
      refuse(dimension + "a stride of " + number(result.strides[i]) +
             " bytes: it is a multiple of 16 below 2^40");
    }
  }
  const int64_t row_bytes = int64_t{result.box[0]} * element_bytes;
  if (row_bytes % kAlignment != 0) {
    refuse("a box whose rows have " + number(row_bytes) + " bytes: a multiple of 16 is needed");
  }
  // A card accepts shorter rows, which leave gaps after them.
  if (swizzle != Swizzle::none && row_bytes != swizzle_span(swizzle)) {
    refuse("a box whose rows have " + number(row_bytes) + " bytes, where the swizzle has " +
           number(swizzle_span(swizzle)));
  }
  return result;
}

}  // namespace fa
