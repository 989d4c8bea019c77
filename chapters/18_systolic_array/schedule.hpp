// Attention as a graph of tasks on three units: DMA, MXU, VPU. Who waits for whom decides; the
// critical path says which chain it was.
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
  std::int64_t occupies;   // cycles in which its unit can do nothing else
  std::int64_t latency;    // until its result is there: an array drains after it was fed
  std::vector<int> needs;  // tasks whose results it reads, all of them earlier in the list
  std::int64_t start = 0;  // filled in by run_schedule
  int waited_for = -1;     // the task that decided the start: a result, or the unit's last user
};

struct Link {  // of the critical path: tasks of one name
  std::string name;
  std::int64_t times = 0, cycles = 0;
};

struct Schedule {
  std::int64_t cycles = 0;
  std::int64_t busy[kUnits] = {};  // cycles that a unit's tasks occupy, over how many there are
  std::vector<int> critical_path;  // tasks, first to last
  std::vector<Link> links;         // the same, added up by name
};

// Each unit takes its tasks in the order in which they become ready. `count`: how many of each
// unit.
Schedule run_schedule(std::vector<Task>& tasks, const std::int64_t (&count)[kUnits]);

// Four ways to write attention for the compiler, from the article and beyond.
enum class Loop {
  kSerial,  // two nested fori_loops: an iteration starts when the one before has ended
  kVmap,    // the outer loop over queries is a batch; the inner loop over keys is still a loop
  kPallas,  // a grid of tiles: loads run ahead, a tile waits only for what it reads
  kSplash,  // the same, and tiles that the causal mask hides are not in the grid
};

struct LoopShape {
  std::int64_t n = 4096, dim = 64, block = 128;
  std::int64_t bytes_per_element = 4;
  std::int64_t buffers = 2;  // tiles of K and V that have room in VMEM (pallas, splash)
  Machine machine = {128, 128, 4, 1024};
  double dma_bytes_per_cycle = 546;  // 819 GB/s at 1.5 GHz
};

struct LoopModel {
  std::vector<Task> tasks;
  std::int64_t iterations = 0;  // of the loop as the compiler runs it
};

LoopModel attention_loop(Loop loop, const LoopShape& shape);

}  // namespace ch18
