#pragma once
// The sum makes P hops. It starts at its owner, each hop brings it to the next rank, and after P
// hops it is back. The owner adds nothing at the end, because its part was the first one.

#include <functional>
#include <span>
#include <utility>

#include "chapters/19_ring_attention/transport.hpp"

using ch19::Request, ch19::Tag, ch19::Transport;

// Returns the sum of all ranks' parts for this rank's own keys, in one of the two buffers.
// add_part(step, sum) adds to `sum` this rank's part for the keys of rank `rank - step`, round the
// ring, which are the keys that it holds at this step. here has zeros, coming anything, of the same
// size.
inline std::span<float> bring_home(
    Transport& transport, std::span<float> here, std::span<float> coming,
    const std::function<void(int step, std::span<float> sum)>& add_part) {
  const int rank = transport.rank(), ranks = transport.ranks();
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int step = 0; step < ranks; ++step) {
    add_part(step, here);
    if (ranks == 1) break;  // it is at home
    const Request received = transport.receive(previous, Tag::gradients, coming);
    const Request sent = transport.send(next, Tag::gradients, here);
    transport.wait(received);
    transport.wait(sent);
    std::swap(here, coming);
  }
  return here;
}
