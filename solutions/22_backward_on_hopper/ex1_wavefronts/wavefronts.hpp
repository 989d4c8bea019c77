#pragma once
// P and dS are in registers, because A in shared memory costs 16 wavefronts per wgmma, for every n.
// dQ is different, because its sum runs over the keys, and the other warpgroup has half of them.

#include <array>

// C [64, n] += A [64, k] @ B [k, n] in bf16, by one warpgroup, takes k / 16 wgmma, each of which
// sums 16 values. B is in shared memory.
struct Product {
  int n, k;
  bool A_in_registers;
};

// Returns the wavefronts, of 128 bytes each, that the product's wgmma read from shared memory.
inline int wavefronts(const Product& product) {
  const int A_bytes = product.A_in_registers ? 0 : 64 * 16 * 2;
  const int B_bytes = product.n * 16 * 2;
  return product.k / 16 * ((A_bytes + B_bytes) / 128);
}

// Returns the cycles of the tensor cores. They do 2048 multiply-adds per cycle.
inline int tensor_cycles(const Product& product) { return 64 * product.n * product.k / 2048; }

// Two warpgroups share a tile of 128 keys, 64 keys each. Returns the five products that ONE of them
// computes with a tile of `queries` queries, in this order: S.T, dP.T, dV, dK, dQ. Each warpgroup
// computes one half of dQ, in products with 64 rows.
inline std::array<Product, 5> products(int queries, int head_dim) {
  const Product scores = {queries, head_dim, false};
  const Product sums = {head_dim, queries, true};
  const Product dQ = {queries * head_dim / 2 / 64, 128, false};
  return {scores, scores, sums, sums, dQ};
}
