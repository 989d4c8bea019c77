#pragma once
// What 10.6 examines: a number L of some tensors, and its gradients as somebody has computed them.

#include <functional>
#include <vector>

using Tensors = std::vector<std::vector<double>>;

struct Program {
  Tensors tensors;                             // Q, K, V
  Tensors gradients;                           // dQ, dK, dV, as long as these; perhaps wrong
  std::function<double(const Tensors&)> loss;  // L of any tensors
};
