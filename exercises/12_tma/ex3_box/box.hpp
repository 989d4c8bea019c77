#pragma once
// A tensor map for K as frameworks keep it, and the copy of one tile.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex12 {

// K [batch, len, heads, head_dim], all sizes in elements, without gaps, so that element (b, row, h,
// d) is K[((b * len + row) * heads + h) * head_dim + d]. head_dim is 64 or 128.
struct Shape {
  int64_t batch, len, heads, head_dim;
};

// make_tensor_map(K, {sizes}, {strides}, {box}, Swizzle::bytes_128)takes 1 to 5 dimensions, the
// innermost first, sizes and box in elements, and a stride, in bytes, for each dimension but the
// first. A row of the box may have 128 bytes, and no more. A tile has `block_kv` rows.
inline TensorMap map_of_K(const bf16* K, const Shape& shape, int block_kv) {
  exercise::todo("TODO(12.3): the map and the copy");
}

// Copies rows kv_tile * block_kv to kv_tile * block_kv + block_kv - 1 of that head and sequence to
// `smem`: panel 0, block_kv rows of 128 bytes, and after it panel 1, if there is one. Rows past the
// end are zeros. One thread calls it, and has told the mbarrier `full` of all bytes of the tile.
// tma_load_2d(smem, map, x, y, full) to tma_load_5d(smem, map, x, y, z, w, v, full) take the
// coordinates of the box's first element in the map's dimensions, in elements, as int.
FA_DEVICE void load_K(uint32_t smem, const TensorMap& map, const Shape& shape, int block_kv,
                      int sequence, int head, int kv_tile, uint32_t full) {
  exercise::todo("TODO(12.3): the map and the copy");
}

}  // namespace FA_BACKEND::ex12
