// cuTensorMapEncodeTiled. A tensor map holds the number of a box that is kept here.

#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "common/cuda/runtime.hpp"
#include "common/error.hpp"
#include "common/tensor_map.hpp"

namespace emucuda {

namespace {

constexpr uint64_t kMagic = 0x656d755f74656e73;

std::mutex mutex;
std::deque<fa::TensorBox>& boxes() {  // never destroyed, and a deque does not move them
  static auto& all = *new std::deque<fa::TensorBox>;
  return all;
}

struct Map {
  uint64_t magic, number;
};

}  // namespace

const fa::TensorBox* tensor_box(const void* map) {
  Map read;
  std::memcpy(&read, map, sizeof read);
  const std::lock_guard lock(mutex);
  return read.magic == kMagic && read.number < boxes().size() ? &boxes()[read.number] : nullptr;
}

}  // namespace emucuda

using namespace emucuda;

extern "C" {

int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* data, const uint64_t* sizes,
                           const uint64_t* strides, const uint32_t* box,
                           const uint32_t* element_strides, int interleave, int swizzle, int, int) {
  constexpr int kInvalid = 1, kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  constexpr fa::Swizzle kSwizzles[] = {fa::Swizzle::none, fa::Swizzle::bytes_32,
                                       fa::Swizzle::bytes_64, fa::Swizzle::bytes_128};
  if (map == nullptr || type < 0 || type > 12 || rank < 1 || rank > 5 || interleave != 0 ||
      swizzle < 0 || swizzle > 3) {
    return kInvalid;
  }
  for (uint32_t i = 0; i < rank; ++i) {
    if (element_strides[i] != 1) return kInvalid;
  }
  fa::TensorBox result;
  const auto encode = [&](std::initializer_list<int64_t> all_sizes,
                          std::initializer_list<int64_t> all_strides,
                          std::initializer_list<int> all_boxes) {
    result = fa::make_tensor_box(data, kBytes[type], all_sizes, all_strides, all_boxes,
                                 kSwizzles[swizzle]);
  };
  int64_t s[5] = {}, t[5] = {};
  int b[5] = {};
  for (uint32_t i = 0; i < rank; ++i) {
    s[i] = static_cast<int64_t>(sizes[i]);
    if (i + 1 < rank) t[i] = static_cast<int64_t>(strides[i]);
    b[i] = static_cast<int>(box[i]);
  }
  try {
    if (rank == 1) encode({s[0]}, {}, {b[0]});
    if (rank == 2) encode({s[0], s[1]}, {t[0]}, {b[0], b[1]});
    if (rank == 3) encode({s[0], s[1], s[2]}, {t[0], t[1]}, {b[0], b[1], b[2]});
    if (rank == 4) encode({s[0], s[1], s[2], s[3]}, {t[0], t[1], t[2]}, {b[0], b[1], b[2], b[3]});
    if (rank == 5) {
      encode({s[0], s[1], s[2], s[3], s[4]}, {t[0], t[1], t[2], t[3]},
             {b[0], b[1], b[2], b[3], b[4]});
    }
  } catch (const fa::InputError&) {
    return kInvalid;
  }
  const std::lock_guard lock(mutex);
  const Map written{kMagic, boxes().size()};
  boxes().push_back(result);
  std::memset(map, 0, 128);
  std::memcpy(map, &written, sizeof written);
  return 0;
}

int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                     unsigned long long, int* result) {
  const bool found = std::string(name) == "cuTensorMapEncodeTiled";
  *function = found ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  if (result != nullptr) *result = found ? 0 : 1;
  return 0;
}

}  // extern "C"
