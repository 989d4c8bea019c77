#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

struct Task {
  std::int64_t occupies, latency;  // its unit; until its result is there, after that
  std::vector<int> needs;          // numbers of tasks that stand before it in the list
};

inline std::int64_t critical_path(const std::vector<Task>& tasks) {
  std::int64_t end = 0;
  for (const Task& task : tasks) end = std::max(end, task.occupies + task.latency);
  return end;
}
