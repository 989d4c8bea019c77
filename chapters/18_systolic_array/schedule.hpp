// Attention as a graph of tasks on three units, which are DMA, MXU and VPU. The dependences
// determine the time, and the critical path shows the longest chain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention_model.hpp"

namespace ch18 {

enum class Unit { kDma, kMxu, kVpu };
inline constexpr int kUnits = 3;

struct Task {
  const char* name;
  Unit unit;
  std::int64_t occupies;   // cycles for which it occupies its unit
  std::int64_t latency;    // cycles until its result is available, because an array drains after it
                           // was fed
  std::vector<int> needs;  // tasks whose results it reads, all earlier in the list
  std::int64_t start = 0;  // set by run_schedule
  int waited_for = -1;  // the task that determined the start, by its result, or its use of the unit
};

struct Link {  // tasks of one name on the critical path
  std::string name;
  std::int64_t times = 0, cycles = 0;
};

struct Schedule {
  std::int64_t cycles = 0;
  std::int64_t busy[kUnits] = {};  // cycles that a unit's tasks occupy, divided by the number of
                                   // units
  std::vector<int> critical_path;  // tasks from first to last
  std::vector<Link> links;         // the same, summed by name
};

// Each unit executes its tasks in the order in which they become ready. `count` is the number of
// each unit.
Schedule run_schedule(std::vector<Task>& tasks, const std::int64_t (&count)[kUnits]);

// Four ways to write attention for the compiler, some of them from the article.
enum class Loop {
  kSerial,  // two nested fori_loops, where an iteration starts when the previous one has ended
  kVmap,    // the outer loop over queries is a batch, and the inner loop over keys is still a loop
  kPallas,  // a grid of tiles, where loads run ahead, and a tile waits only for its inputs
  kSplash,  // the same, without the tiles that the causal mask hides
};

struct LoopShape {
  std::int64_t n = 4096, dim = 64, block = 128;
  std::int64_t bytes_per_element = 4;
  std::int64_t buffers = 2;  // tiles of K and V that fit into VMEM (pallas, splash)
  Machine machine = {128, 128, 4, 1024};
  double dma_bytes_per_cycle = 546;  // 819 GB/s at 1.5 GHz
};

struct LoopModel {
  std::vector<Task> tasks;
  std::int64_t iterations = 0;  // iterations of the loop that the compiler generates
};

LoopModel attention_loop(Loop loop, const LoopShape& shape);

}  // namespace ch18
