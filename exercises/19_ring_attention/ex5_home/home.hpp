#pragma once
// The gradients of keys and values, from all ranks to the one whose keys they are.

#include <functional>
#include <span>
#include <utility>

#include "chapters/19_ring_attention/transport.hpp"
#include "exercises/support/todo.hpp"

using ch19::Request, ch19::Tag, ch19::Transport;

// Returns the sum of all ranks' parts for this rank's own keys, in one of the two buffers.
// add_part(step, sum) adds to `sum` this rank's part for the keys of rank `rank - step`, round the
// ring, which are the keys that it holds at this step. here has zeros, coming anything, of the same
// size.
inline std::span<float> bring_home(
    Transport& transport, std::span<float> here, std::span<float> coming,
    const std::function<void(int step, std::span<float> sum)>& add_part) {
  exercise::todo("TODO(19.5): add, hand on, and home");
}
