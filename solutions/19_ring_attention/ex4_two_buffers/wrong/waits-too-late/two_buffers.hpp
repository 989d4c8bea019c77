#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "chapters/19_ring_attention/transport.hpp"

using ch19::Request, ch19::Tag, ch19::Transport;

// Calls use() once with the keys of each rank, its own first, then those of the rank before, ….
// here: this rank's keys, in the first of two buffers; coming: the second one, of the same size.
inline void use_all_keys(Transport& transport, std::span<float> here, std::span<float> coming,
                         const std::function<void(std::span<const float>)>& use) {
  const int rank = transport.rank(), ranks = transport.ranks();
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  std::vector<Request> requests;
  for (int step = 0; step < ranks; ++step) {
    if (step < ranks - 1) {
      requests.push_back(transport.receive(previous, Tag::keys, coming));
      requests.push_back(transport.send(next, Tag::keys, here));
    }
    use(here);
    std::swap(here, coming);
  }
  for (const Request& one : requests) transport.wait(one);
}
