// Tests the dependence graph, with bounds that no schedule can beat, and with the task that
// determines the time.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "schedule.hpp"

using namespace ch18;

namespace {

std::int64_t done(const Task& task) { return task.start + task.occupies + task.latency; }

// No task starts before its inputs are ready, and no unit exceeds its capacity at any time.
void check_valid(const std::vector<Task>& tasks, const std::int64_t (&count)[kUnits]) {
  for (const Task& task : tasks) {
    for (const int needed : task.needs) REQUIRE(task.start >= done(tasks[needed]));
  }
  for (int unit = 0; unit < kUnits; ++unit) {
    std::vector<std::pair<std::int64_t, int>> changes;
    for (const Task& task : tasks) {
      if (static_cast<int>(task.unit) != unit) continue;
      changes.push_back({task.start, 1});
      changes.push_back({task.start + task.occupies, -1});
    }
    std::sort(changes.begin(), changes.end());  // at equal times, ends come first
    std::int64_t busy = 0;
    for (const auto& [at, change] : changes) REQUIRE((busy += change) <= count[unit]);
  }
}

std::int64_t longest_chain(const std::vector<Task>& tasks) {
  std::vector<std::int64_t> end(tasks.size());
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::int64_t start = 0;
    for (const int needed : tasks[t].needs) start = std::max(start, end[needed]);
    end[t] = start + tasks[t].occupies + tasks[t].latency;
  }
  return *std::max_element(end.begin(), end.end());
}

}  // namespace

TEST_CASE("any graph: valid, no faster than its longest chain or its busiest unit, path adds up") {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 300; ++i) {
    std::vector<Task> tasks;
    const int size = 1 + below(40);
    for (int t = 0; t < size; ++t) {
      std::vector<int> needs;
      for (int k = below(3); k > 0 && t > 0; --k) needs.push_back(below(t));
      tasks.push_back({below(2) ? "even" : "odd", static_cast<Unit>(below(3)), 1 + below(9),
                       below(2) * below(20), needs});
    }
    const std::int64_t count[kUnits] = {1 + below(2), 1 + below(4), 1};
    const Schedule schedule = run_schedule(tasks, count);
    check_valid(tasks, count);
    REQUIRE(schedule.cycles >= longest_chain(tasks));
    for (const std::int64_t busy : schedule.busy) REQUIRE(schedule.cycles >= busy);
    std::int64_t path = 0;
    for (const Link& link : schedule.links) path += link.cycles;
    REQUIRE(path == schedule.cycles);
    REQUIRE(tasks[schedule.critical_path.front()].start == 0);
    for (std::size_t step = 1; step < schedule.critical_path.size(); ++step) {
      REQUIRE(tasks[schedule.critical_path[step]].waited_for == schedule.critical_path[step - 1]);
    }
  }
}

TEST_CASE("one unit, two tasks; a chain; nothing at all") {
  std::vector<Task> two = {{"a", Unit::kMxu, 5, 10, {}}, {"b", Unit::kMxu, 5, 10, {}}};
  CHECK(run_schedule(two, {1, 1, 1}).cycles == 20);  // b enters after a: 5 + 5 + 10
  CHECK(run_schedule(two, {1, 2, 1}).cycles == 15);
  std::vector<Task> chain = {{"a", Unit::kMxu, 5, 10, {}}, {"b", Unit::kMxu, 5, 10, {0}}};
  CHECK(run_schedule(chain, {1, 2, 1}).cycles == 30);  // b needs a's result, so the array drains
                                                       // twice
  std::vector<Task> none;
  CHECK(run_schedule(none, {1, 1, 1}).cycles == 0);
}

TEST_CASE("the serial loop is one chain; a batch is bound by a unit; a mask leaves half") {
  LoopShape shape;
  shape.n = 2048;
  const auto run = [&](Loop loop) {
    LoopModel model = attention_loop(loop, shape);
    const Schedule schedule = run_schedule(model.tasks, {1, shape.machine.mxus, 1});
    check_valid(model.tasks, {1, shape.machine.mxus, 1});
    return schedule.cycles;
  };
  LoopShape one = shape;
  one.n = shape.block;
  LoopModel tile = attention_loop(Loop::kSerial, one);
  const std::int64_t alone = run_schedule(tile.tasks, {1, 4, 1}).cycles;
  const std::int64_t blocks = 16;
  CHECK(run(Loop::kSerial) == blocks * blocks * alone);
  CHECK(run(Loop::kVmap) < run(Loop::kSerial) / 4);
  const LoopModel batch = attention_loop(Loop::kVmap, shape);  // its inner loop is still a loop:
  std::int64_t waiting = 0;                                    // all rows finish an iteration
                                                               // before the next
  for (const Task& task : batch.tasks) {
    waiting += static_cast<std::int64_t>(task.needs.size()) == blocks;
  }
  CHECK(waiting == blocks - 1);
  CHECK(run(Loop::kPallas) < run(Loop::kSerial));
  CHECK(run(Loop::kSplash) < run(Loop::kPallas) * (blocks + 2) / (2 * blocks));
  CHECK(attention_loop(Loop::kVmap, shape).iterations == blocks);
  CHECK(attention_loop(Loop::kSerial, shape).iterations == blocks * blocks);
  CHECK(attention_loop(Loop::kSplash, shape).iterations == blocks * (blocks + 1) / 2);
}
