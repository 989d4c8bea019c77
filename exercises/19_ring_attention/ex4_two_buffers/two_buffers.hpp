#pragma once
// One rank of a ring, in which keys travel while the rank uses others.

#include <functional>
#include <span>
#include <utility>

#include "chapters/19_ring_attention/transport.hpp"
#include "exercises/support/todo.hpp"

using ch19::Request, ch19::Tag, ch19::Transport;

// Calls use() once with the keys of each rank, its own first, then those of the rank before, ….
// here has this rank's keys, in the first of two buffers, and coming is the second one, of the same
// size.
inline void use_all_keys(Transport& transport, std::span<float> here, std::span<float> coming,
                         const std::function<void(std::span<const float>)>& use) {
  exercise::todo("TODO(19.4): the loop: start, use, wait, swap");
}
