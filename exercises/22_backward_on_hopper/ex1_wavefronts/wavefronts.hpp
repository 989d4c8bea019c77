#pragma once
// The shared memory traffic and the tensor cycles of the backward pass's five products.

#include <array>

#include "exercises/support/todo.hpp"

// C [64, n] += A [64, k] @ B [k, n] in bf16, by one warpgroup, takes k / 16 wgmma, each of which
// sums 16 values. B is in shared memory.
struct Product {
  int n, k;
  bool A_in_registers;
};

// Returns the wavefronts, of 128 bytes each, that the product's wgmma read from shared memory.
inline int wavefronts(const Product& product) {
  exercise::todo("TODO(22.1): wavefronts, cycles and shapes of the products");
}

// Returns the cycles of the tensor cores. They do 2048 multiply-adds per cycle.
inline int tensor_cycles(const Product& product) {
  exercise::todo("TODO(22.1): wavefronts, cycles and shapes of the products");
}

// Two warpgroups share a tile of 128 keys, 64 keys each. Returns the five products that ONE of them
// computes with a tile of `queries` queries, in this order: S.T, dP.T, dV, dK, dQ. Each warpgroup
// computes one half of dQ, in products with 64 rows.
inline std::array<Product, 5> products(int queries, int head_dim) {
  exercise::todo("TODO(22.1): wavefronts, cycles and shapes of the products");
}
