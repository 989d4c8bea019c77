#pragma once
// A kernel that streams tiles through shared memory, for the tests of D.3 and D.4.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exercises/support/warp.hpp"

namespace exercise {

struct TileSums {
  Numbers got, expected;
  fa::simt::Report report;  // with events
};

// Runs kernel(tiles, sums, num_tiles) in one block. A tile has 4 floats for each thread, and thread
// t sums the first float of the thread that is as far from the end as t from the beginning.
template <class Kernel>
TileSums run_tile_sums(Kernel kernel, int threads, size_t smem_bytes, int num_tiles,
                       uint64_t schedule) {
  const std::vector<float> values = random_numbers(num_tiles * threads * 4, 1);
  fa::simt::Buffer<float> tiles(values.size(), "tiles");
  fa::simt::Buffer<float> sums(static_cast<size_t>(threads), "sums");
  std::copy(values.begin(), values.end(), tiles.begin());
  TileSums seen;
  for (int t = 0; t < threads; ++t) {
    float sum = 0;
    for (int tile = 0; tile < num_tiles; ++tile)
      sum += values[(tile * threads + threads - 1 - t) * 4];
    seen.expected.push_back(sum);
  }
  fa::simt::Config config;
  config.schedule_seed = schedule;
  config.events = true;
  seen.report = fa::simt::run(config, [&] {
    emulator::launch(kernel, 1, threads, smem_bytes, tiles.data(), sums.data(), num_tiles);
  });
  seen.got = numbers(sums);
  return seen;
}

}  // namespace exercise
