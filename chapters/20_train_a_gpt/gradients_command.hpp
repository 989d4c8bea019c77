#pragma once
// `gradients`: compares those of a tiny model with central differences, one line per parameter.

#include "self_attention.hpp"

namespace fa::ch20 {

// Returns the exit code, which is 1 if a parameter's gradient differs from central differences.
int show_gradients(const AttentionChoice& attention);

}  // namespace fa::ch20
