#pragma once
// How wrong a row of logits is about the character that came next, and which way is better.

#include <algorithm>
#include <cmath>
#include <vector>

#include "exercises/support/todo.hpp"

// logits: [rows, vocabulary], row after row. targets: [rows], each from 0 to vocabulary - 1.
// Returns the mean over the rows of -ln softmax(row)[target]. `logits` becomes the gradient of that
// mean, dx, in place.
inline double cross_entropy(std::vector<float>& logits, const std::vector<int>& targets,
                            int vocabulary) {
  exercise::todo("TODO(20.1): the loss of each row, and its gradient in the logits' place");
}
