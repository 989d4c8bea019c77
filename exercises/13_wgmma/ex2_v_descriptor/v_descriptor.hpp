#pragma once
// The descriptor of a tile of V that came in pages.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex13 {

// A tile of V in shared memory, in bf16 or fp16, has `keys` keys in pages of `page_keys` keys, one
// page after the other. In a page are panels of 64 columns one after the other, each with all keys,
// a line of 128 bytes for each key, swizzled.
struct Tile {
  uint32_t smem;             // a multiple of 1024
  uint32_t keys, page_keys;  // multiples of 16
  uint32_t head_dim;         // columns, a multiple of 64
};

// The descriptor of keys `key` to `key` + 15, and of the columns beginning at `column`. The wgmma
// gives their number, and they may go over several panels. MN-major. `key` is a multiple of 16 and
// counts from the tile's first key, `column` is a multiple of 64.
//
// wgmma_descriptor(address, leading_bytes, stride_bytes, Swizzle::bytes_128) puts it together, with
// leading_bytes from a panel to the next, stride_bytes from 8 keys to the next 8.
FA_HOST_DEVICE inline uint64_t v_descriptor(const Tile& tile, uint32_t key, uint32_t column) {
  exercise::todo("TODO(13.2): where it begins, and the two distances");
}

}  // namespace FA_BACKEND::ex13
