#include <doctest/doctest.h>

#include <algorithm>
#include <critical_path.hpp>
#include <string>

#include "exercises/support/verdict.hpp"

enum class Start { kLargest, kFirst, kLast, kSum, kNone, kCarried };

// done of each task under a rule, with the latency or without it.
static std::vector<std::int64_t> ends(const std::vector<Task>& tasks, Start rule, bool latency) {
  std::vector<std::int64_t> done;
  std::int64_t start = 0;
  for (const Task& task : tasks) {
    if (rule != Start::kCarried) start = 0;
    for (size_t i = 0; i < task.needs.size(); ++i) {
      const std::int64_t at = done[task.needs[i]];
      if (rule == Start::kLargest || rule == Start::kCarried) start = std::max(start, at);
      if (rule == Start::kFirst && i == 0) start = at;
      if (rule == Start::kLast) start = at;
      if (rule == Start::kSum) start += at;
    }
    done.push_back(start + task.occupies + (latency ? task.latency : 0));
  }
  return done;
}

static void check_path(const std::string& what, const std::vector<Task>& tasks) {
  const auto number = [](std::int64_t cycles) {
    return exercise::Numbers{static_cast<double>(cycles)};
  };
  const auto largest = [&](const std::vector<std::int64_t>& done) {
    return done.empty() ? 0 : *std::max_element(done.begin(), done.end());
  };
  const auto right = ends(tasks, Start::kLargest, true);
  const auto entered = ends(tasks, Start::kLargest, false);
  std::int64_t sum = 0, at_the_end = 0;
  for (size_t t = 0; t < tasks.size(); ++t) {
    sum += tasks[t].occupies + tasks[t].latency;
    at_the_end = std::max(at_the_end, entered[t] + tasks[t].latency);
  }
  exercise::check_output(
      {"cycles of " + what, 0, 0}, number(critical_path(tasks)), number(largest(right)),
      {{"everything-in-a-row", number(sum),
        "all tasks one after the other. Those that do not need each other run at the same time"},
       {"latency-forgotten", number(largest(entered)),
        "a result is there when the array has drained, latency cycles after the unit is free"},
       {"latency-at-the-end-only", number(at_the_end),
        "a task in the chain waits for the latency too, because it needs the result"},
       {"only-the-first-need", number(largest(ends(tasks, Start::kFirst, true))),
        "a task needs all of its needs, not the first one"},
       {"only-the-last-need", number(largest(ends(tasks, Start::kLast, true))),
        "a task needs all of its needs, not the last one of the list"},
       {"needs-ignored", number(largest(ends(tasks, Start::kNone, true))),
        "every task starts in cycle 0. It must wait for what it needs"},
       {"needs-added-up", number(largest(ends(tasks, Start::kSum, true))),
        "a task waits for all tasks that it needs at the same time, so the latest decides, and "
        "their times do not add up"},
       {"start-carried-over", number(largest(ends(tasks, Start::kCarried, true))),
        "a task starts no earlier than the previous task of the list: start begins at 0 for each"},
       {"end-of-the-last-task", number(right.empty() ? 0 : right.back()),
        "the last task of the list need not be the last to finish"}});
}

// load, S, softmax, P @ V of `tiles` tiles, where in a chain each softmax needs the previous one.
static std::vector<Task> attention(int tiles, bool chain) {
  std::vector<Task> tasks;
  int state = -1;
  for (int tile = 0; tile < tiles; ++tile) {
    const int load = static_cast<int>(tasks.size());
    tasks.push_back({12, 0, {}});
    tasks.push_back({13, 19, {load}});
    tasks.push_back(
        {11, 0,
         chain && state >= 0 ? std::vector<int>{load + 1, state} : std::vector<int>{load + 1}});
    state = load + 2;
    tasks.push_back({13, 19, {state}});
  }
  return tasks;
}

TEST_CASE("nothing, and one task") {
  check_path("nothing", {});
  check_path("one task", {{5, 7, {}}});
}
TEST_CASE("one tile") { check_path("one tile", attention(1, false)); }
TEST_CASE("three tiles that have nothing to do with each other") {
  check_path("three tiles", attention(3, false));
}
TEST_CASE("three tiles of one row: m and l are handed on") {
  check_path("three tiles in a chain", attention(3, true));
}
TEST_CASE("the slower of two") {
  check_path("two needs, the second slower", {{2, 1, {}}, {9, 3, {}}, {4, 0, {0, 1}}});
  check_path("two needs, the first slower", {{9, 3, {}}, {2, 1, {}}, {4, 0, {0, 1}}});
}
TEST_CASE("a long task in the middle of the list") {
  check_path("a long task first", {{3, 0, {}}, {50, 8, {}}, {4, 2, {0}}});
}
