#pragma once
// The input of 10.6 is a number L of some tensors, and gradients of L that may be wrong.

#include <functional>
#include <vector>

using Tensors = std::vector<std::vector<double>>;

struct Program {
  Tensors tensors;                             // Q, K, V
  Tensors gradients;                           // dQ, dK, dV, as long as these, perhaps wrong
  std::function<double(const Tensors&)> loss;  // L of any tensors
};
