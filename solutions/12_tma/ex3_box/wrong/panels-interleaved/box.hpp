#pragma once

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex12 {

struct Shape {
  int64_t batch, len, heads, head_dim;
};
inline TensorMap map_of_K(const bf16* K, const Shape& shape, int block_kv) {
  return make_tensor_map(K, {64, shape.head_dim / 64, shape.len, shape.heads, shape.batch},
                         {128, shape.heads * shape.head_dim * 2, shape.head_dim * 2,
                          shape.len * shape.heads * shape.head_dim * 2},
                         {64, static_cast<int>(shape.head_dim / 64), block_kv, 1, 1},
                         Swizzle::bytes_128);
}
FA_DEVICE void load_K(uint32_t smem, const TensorMap& map, const Shape& shape, int block_kv,
                      int sequence, int head, int kv_tile, uint32_t full) {
  tma_load_5d(smem, map, 0, 0, kv_tile * block_kv, head, sequence, full);
}

}  // namespace FA_BACKEND::ex12
