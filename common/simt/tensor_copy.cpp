// Moves the bytes of a box between global and shared memory.

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/simt/begin.hpp"
#include "common/simt/block.hpp"
#include "common/simt/mbarrier.hpp"

namespace fa::simt {

namespace {

constexpr int64_t kChunkBytes = 16;

// Calls f(offset in the dense box, global address, first byte, end) for each row of the box. Bytes
// [first, end) of the row are inside the tensor. A store writes the last 16-byte chunk of a row
// whole, as an H200 does.
template <class F>
void for_each_box_row(const TensorCopy& copy, GlobalUse use, F f) {
  const TensorBox& map = copy.map;
  const int64_t row_bytes = int64_t{map.box[0]} * map.element_bytes;
  const int64_t from = copy.at[0] * map.element_bytes;
  const int64_t row_end = map.sizes[0] * map.element_bytes;
  const int64_t partial = use == GlobalUse::kWrite ? (row_end - from) % kChunkBytes : 0;
  const int64_t first = std::clamp<int64_t>(-from, 0, row_bytes);
  const int64_t end =
      std::clamp<int64_t>(row_end - from + (partial > 0 ? kChunkBytes - partial : 0), 0, row_bytes);
  int64_t index[TensorBox::kMaxRank] = {};
  for (uint32_t dense = 0;; dense += static_cast<uint32_t>(row_bytes)) {
    bool inside = first < end;
    int64_t address = from;  // relative to the tensor
    for (int i = 1; i < map.rank; ++i) {
      const int64_t at = copy.at[i] + index[i];
      inside = inside && at >= 0 && at < map.sizes[i];
      address += at * map.strides[i];
    }
    f(dense, static_cast<const char*>(map.data) + address, inside ? first : 0, inside ? end : 0);
    int i = 1;
    while (i < map.rank && ++index[i] == map.box[i]) index[i++] = 0;
    if (i >= map.rank) return;
  }
}

// Returns where byte `dense` of a box is stored in shared memory.
uint32_t place_in_shared(const TensorCopy& copy, uint32_t dense) {
  return swizzled(copy.map.swizzle, kSharedBase + copy.offset + dense) - kSharedBase;
}

}  // namespace

void load_box(const TensorCopy& copy, unsigned char* shared) {
  if (copy.source != nullptr) {
    std::memmove(shared + copy.offset, copy.source->shared() + copy.from, copy.map.box_bytes());
    return;
  }
  const auto row_bytes = copy.map.box[0] * copy.map.element_bytes;
  for_each_box_row(
      copy, GlobalUse::kRead, [&](uint32_t dense, const char* row, int64_t first, int64_t end) {
        for (int64_t chunk = 0; chunk < row_bytes; chunk += kChunkBytes) {
          unsigned char* const target =
              shared + place_in_shared(copy, dense + static_cast<uint32_t>(chunk));
          const int64_t from = std::clamp<int64_t>(first - chunk, 0, kChunkBytes);
          const int64_t to = std::clamp<int64_t>(end - chunk, from, kChunkBytes);
          if (to - from < kChunkBytes) std::memset(target, 0, kChunkBytes);
          if (to > from)
            copy_global(target + from, row + chunk + from, static_cast<size_t>(to - from));
        }
      });
}

void store_box(const TensorCopy& copy, const unsigned char* shared) {
  if (copy.adds) {
    auto* const sums = static_cast<float*>(const_cast<void*>(copy.map.data));
    for (int64_t i = 0; i < copy.map.sizes[0]; ++i) {
      float value;
      std::memcpy(&value, shared + copy.offset + i * int64_t{sizeof value}, sizeof value);
      std::atomic_ref(sums[i]).fetch_add(value);
    }
    return;
  }
  for_each_box_row(
      copy, GlobalUse::kWrite, [&](uint32_t dense, const char* row, int64_t first, int64_t end) {
        for (int64_t chunk = first; chunk < end; chunk += kChunkBytes) {  // whole chunks
          copy_global(const_cast<char*>(row) + chunk,
                      shared + place_in_shared(copy, dense + static_cast<uint32_t>(chunk)),
                      kChunkBytes);
        }
      });
}

void for_each_row(const TensorCopy& copy, GlobalUse use,
                  const std::function<void(const char*, size_t)>& f) {
  if (copy.source != nullptr) return;
  for_each_box_row(copy, use, [&](uint32_t, const char* row, int64_t first, int64_t end) {
    if (first < end) f(row + first, static_cast<size_t>(end - first));
  });
}

}  // namespace fa::simt
