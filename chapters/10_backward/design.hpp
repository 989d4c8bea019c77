#pragma once
// The designs of the kernels, numbered as in --design, and the fastest one.

namespace ch10 {

enum Design { BEST, TWO_KERNELS, ONE_KERNEL, TWO_ROLES };

// Indexed by [fp16][head size above 64]. One kernel is fastest if its warps can own 32 keys each.
// At larger head sizes twice as many sums do not fit into the registers, and in fp16 they just
// miss.
constexpr Design FASTEST[2][2] = {{ONE_KERNEL, TWO_ROLES}, {TWO_ROLES, TWO_ROLES}};

}  // namespace ch10
