#pragma once
// `gradients`: those of a tiny model against central differences, a row for each parameter.

#include "self_attention.hpp"

namespace fa::ch20 {

// Returns the exit code: 1 if a parameter's gradient is not that of central differences.
int show_gradients(const AttentionChoice& attention);

}  // namespace fa::ch20
