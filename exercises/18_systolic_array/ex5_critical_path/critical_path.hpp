#pragma once
// The cycle in which all tasks are done, if no task waits for a unit.
#include <algorithm>
#include <cstdint>
#include <vector>
#include "exercises/support/todo.hpp"

struct Task {
  std::int64_t occupies;   // cycles that it keeps its unit busy
  std::int64_t latency;    // cycles from then on until its result is there
  std::vector<int> needs;  // numbers of tasks that come before it in the list
};

inline std::int64_t critical_path(const std::vector<Task>& tasks) {
  exercise::todo("TODO(18.5): the cycle in which the last result is there");
}
