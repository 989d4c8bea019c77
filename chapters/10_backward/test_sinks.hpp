#pragma once
// For the tests of chapters 10 and 22.

#include <vector>

#include "common/reference.hpp"

namespace fa::test {

// Returns the gradient of sum(O dO) by the sink of a head, from two such sums.
inline double by_difference(Problem problem, int64_t head) {
  const double step = 1e-3;
  std::vector<double> row(problem.shape.dim);
  const float sink = problem.sinks[head];
  const auto loss = [&](double change) {
    problem.sinks[head] = static_cast<float>(sink + change);
    double sum = 0;
    for (int64_t i = 0; i < problem.shape.rows(); ++i) {
      reference_row(problem, i / problem.shape.q, i % problem.shape.q, row);
      for (int64_t d = 0; d < problem.shape.dim; ++d)
        sum += row[d] * problem.d_o[i * problem.shape.dim + d];
    }
    return sum;
  };
  const double difference = loss(step) - loss(-step);
  return difference / (static_cast<float>(sink + step) - static_cast<float>(sink - step));
}

}  // namespace fa::test
