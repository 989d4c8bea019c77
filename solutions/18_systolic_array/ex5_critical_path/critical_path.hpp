#pragma once
// One pass is enough, because a task needs only earlier tasks. Latency counts, because the next
// task of a chain needs this one's result, and not its unit.
#include <algorithm>
#include <cstdint>
#include <vector>

struct Task {
  std::int64_t occupies;   // cycles that it keeps its unit busy
  std::int64_t latency;    // cycles from then on until its result is there
  std::vector<int> needs;  // numbers of tasks that come before it in the list
};

inline std::int64_t critical_path(const std::vector<Task>& tasks) {
  std::vector<std::int64_t> done;
  std::int64_t end = 0;
  for (const Task& task : tasks) {
    std::int64_t start = 0;
    for (const int needed : task.needs) start = std::max(start, done[needed]);
    done.push_back(start + task.occupies + task.latency);
    end = std::max(end, done.back());
  }
  return end;
}
