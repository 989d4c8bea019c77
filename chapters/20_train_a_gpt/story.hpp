#pragma once
// The story of the chapter, with gradients, a training run, text.

namespace fa::ch20 {

// Returns the exit code.
int tell_story();

// --bench measures time and memory of a step for different contexts, plain and tiled.
int run_bench();

}  // namespace fa::ch20
