#pragma once
// The designs of the kernels, as --design has them, and which is the fastest.

#include <cstdint>

namespace ch10 {

enum Design { BEST, TWO_KERNELS, ONE_KERNEL, TWO_ROLES };

// At head sizes up to 64 a warp of the one kernel may own 32 keys; in fp16 its registers spill.
constexpr bool owns_32_keys(int64_t head_dim, bool fp16) { return head_dim <= 64 && !fp16; }

constexpr Design best_design(int64_t head_dim, bool fp16) {
  return owns_32_keys(head_dim, fp16) ? ONE_KERNEL : TWO_ROLES;
}

}  // namespace ch10
