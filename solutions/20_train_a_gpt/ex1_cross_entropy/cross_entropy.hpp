#pragma once
// After the maximum is subtracted, no exponent is above 0 and one is 0, so l is at least 1. Nothing
// overflows, and there is no logarithm of 0 and no division by 0. The loss comes from the logits
// and not from the probability, because fp32 rounds a probability below e^-104 to 0.

#include <algorithm>
#include <cmath>
#include <vector>

// logits: [rows, vocabulary], row after row. targets: [rows], each from 0 to vocabulary - 1.
// Returns the mean over the rows of -ln softmax(row)[target]. `logits` becomes the gradient of that
// mean, dx, in place.
inline double cross_entropy(std::vector<float>& logits, const std::vector<int>& targets,
                            int vocabulary) {
  const size_t rows = targets.size();
  double loss = 0;
  for (size_t i = 0; i < rows; ++i) {
    float* const row = logits.data() + i * vocabulary;
    const float m = *std::max_element(row, row + vocabulary);
    const float target = row[targets[i]];  // read before the gradient takes its place
    float l = 0;
    for (int j = 0; j < vocabulary; ++j) l += row[j] = std::exp(row[j] - m);
    loss += std::log(l) - (target - m);
    for (int j = 0; j < vocabulary; ++j)
      row[j] = (row[j] / l - (j == targets[i])) / static_cast<float>(rows);
  }
  return loss / static_cast<double>(rows);
}
