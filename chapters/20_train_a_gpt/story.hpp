#pragma once
// The chapter as a story: gradients, a training run, text.

namespace fa::ch20 {

// Returns the exit code.
int tell_story();

// --bench: time and memory of a step against the context, plain and tiled.
int run_bench();

}  // namespace fa::ch20
