#pragma once
// Attention to all keys of a sequence, from attention to pieces of them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "exercises/support/todo.hpp"

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// The result of a query over some of the keys. Without a key LSE is -inf, and O is undefined.
struct Part {
  std::vector<float> O;  // [dim], the sum of e^s v, divided by the sum of e^s
  float LSE;             // natural logarithm of the sum of e^s
};

// The same for all keys together, of which each is in one part. If there is no key in any of them,
// O is 0 and LSE is -inf.
inline Part combine_parts(const std::vector<Part>& parts, int dim) {
  exercise::todo("TODO(11.1): one O and one LSE from those of the parts");
}
