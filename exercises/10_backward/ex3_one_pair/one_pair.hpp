#pragma once
// Adds the part of a tile of queries and a tile of keys to the gradients.

#include <cmath>

#include "exercises/10_backward/pair.hpp"
#include "exercises/support/todo.hpp"

// P  = e^(scale S - LSE), 0 where the key is hidden    [queries, keys]
// dS = P o (dP - D)
// dV += P.T @ dO,   dQ += scale dS @ K,   dK += scale dS.T @ Q
inline void add_pair(const Pair& t, Gradients& sum) {
  exercise::todo("TODO(10.3): P and dS of the pair, and their parts of dQ, dK and dV");
}
