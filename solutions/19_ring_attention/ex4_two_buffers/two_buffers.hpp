#pragma once
// Both messages are started before use(), so that a transfer that takes no longer than use() costs
// no time. The code waits for both, because the next use() reads the received keys, and the next
// receive overwrites the buffer that is sent.

#include <functional>
#include <span>
#include <utility>

#include "chapters/19_ring_attention/transport.hpp"

using ch19::Request, ch19::Tag, ch19::Transport;

// Calls use() once with the keys of each rank, its own first, then those of the rank before, ….
// here has this rank's keys, in the first of two buffers, and coming is the second one, of the same
// size.
inline void use_all_keys(Transport& transport, std::span<float> here, std::span<float> coming,
                         const std::function<void(std::span<const float>)>& use) {
  const int rank = transport.rank(), ranks = transport.ranks();
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int step = 0; step < ranks; ++step) {
    Request received, sent;
    if (step < ranks - 1) {
      received = transport.receive(previous, Tag::keys, coming);
      sent = transport.send(next, Tag::keys, here);
    }
    use(here);
    transport.wait(received);
    transport.wait(sent);
    std::swap(here, coming);
  }
}
