#pragma once
// The start address counts pages, then panels, then lines. The distance of two panels is a panel of
// one page. The number of pages does not matter, because the 16 keys are in one page.

#include "common/kernels/geometry.hpp"

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
FA_HOST_DEVICE inline uint64_t v_descriptor(const Tile& tile, uint32_t key, uint32_t column) {
  const uint32_t panel = tile.page_keys * 128, page = tile.head_dim / 64 * panel;
  const uint32_t address =
      tile.smem + key / tile.page_keys * page + column / 64 * panel + key % tile.page_keys * 128;
  return wgmma_descriptor(address, panel, 8 * 128, Swizzle::bytes_128);
}

}  // namespace FA_BACKEND::ex13
