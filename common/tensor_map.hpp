#pragma once
// The content of a tensor map, which is where a tensor is in global memory, which box of it one
// instruction copies, and how the box is laid out in shared memory. common/gpu converts it to a
// CUtensorMap; the emulator uses it directly.

#include <cstdint>
#include <initializer_list>

#ifdef __CUDACC__
#define FA_EVERYWHERE __host__ __device__
#else
#define FA_EVERYWHERE
#endif

namespace fa {

/// Permutations of the 16-byte chunks of shared memory, so that accesses to a column of rows do not
/// use the same banks. Some of bits 4 to 6 of an address are XORed with as many of bits 7 to 9. The
/// numbers are those of wgmma's descriptors.
enum class Swizzle : uint8_t { none = 0, bytes_128 = 1, bytes_64 = 2, bytes_32 = 3 };

/// Returns the bytes of a row within which the swizzle permutes; without a swizzle 16, the size of
/// a chunk.
FA_EVERYWHERE constexpr uint32_t swizzle_span(Swizzle swizzle) {
  constexpr uint32_t SPANS[] = {16, 128, 64, 32};
  return SPANS[static_cast<int>(swizzle)];
}

/// Returns where the byte of the unswizzled `address` is stored.
FA_EVERYWHERE constexpr uint32_t swizzled(Swizzle swizzle, uint32_t address) {
  return address ^ ((address >> 3) & (swizzle_span(swizzle) - 16));
}

struct TensorBox {
  static constexpr int kMaxRank = 5;

  const void* data = nullptr;
  int element_bytes = 0, rank = 0;
  int64_t sizes[kMaxRank] = {};    // in elements, where dimension 0 is contiguous
  int64_t strides[kMaxRank] = {};  // in bytes; [0] is element_bytes
  int box[kMaxRank] = {};          // in elements
  Swizzle swizzle = Swizzle::none;

  uint32_t box_bytes() const;
};

/// Returns a checked description. `strides` are those of dimensions 1 and up, in bytes. Throws
/// InputError with one sentence where cuTensorMapEncodeTiled would return an error code.
TensorBox make_tensor_box(const void* data, int element_bytes, std::initializer_list<int64_t> sizes,
                          std::initializer_list<int64_t> strides, std::initializer_list<int> box,
                          Swizzle swizzle);

}  // namespace fa

#undef FA_EVERYWHERE
