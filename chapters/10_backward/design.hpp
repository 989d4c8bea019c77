#pragma once
// The designs of the kernels, as --design has them, and which is the fastest.

namespace ch10 {

enum Design { BEST, TWO_KERNELS, ONE_KERNEL, TWO_ROLES };

// By [fp16][head size above 64]. One kernel, where its warps may own 32 keys each: twice as many
// sums do not fit the registers at larger head sizes, nor, by a few, in fp16.
constexpr Design FASTEST[2][2] = {{ONE_KERNEL, TWO_ROLES}, {TWO_ROLES, TWO_ROLES}};

}  // namespace ch10
