#include "schedule.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>

namespace ch18 {

Schedule run_schedule(std::vector<Task>& tasks, const std::int64_t (&count)[kUnits]) {
  using Entry = std::pair<std::int64_t, int>;
  using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  std::vector<std::vector<int>> readers(tasks.size());
  std::vector<int> missing(tasks.size());
  Queue ready;            // (first cycle in which it could start, task)
  Queue free_at[kUnits];  // per unit, (first free cycle, last task)
  for (int unit = 0; unit < kUnits; ++unit) {
    for (std::int64_t i = 0; i < count[unit]; ++i) free_at[unit].push({0, -1});
  }
  for (int t = 0; t < static_cast<int>(tasks.size()); ++t) {
    missing[t] = static_cast<int>(tasks[t].needs.size());
    for (const int needed : tasks[t].needs) readers[needed].push_back(t);
    if (missing[t] == 0) ready.push({0, t});
  }
  const auto done = [&](int t) { return tasks[t].start + tasks[t].occupies + tasks[t].latency; };
  Schedule schedule;
  int last = -1;
  while (!ready.empty()) {
    const auto [ready_at, t] = ready.top();
    ready.pop();
    Task& task = tasks[t];
    Queue& unit = free_at[static_cast<int>(task.unit)];
    const auto [unit_free, user] = unit.top();
    unit.pop();
    task.start = std::max(ready_at, unit_free);
    if (unit_free > ready_at) {
      task.waited_for = user;
    } else {
      for (const int needed : task.needs) {
        if (done(needed) == task.start) task.waited_for = needed;
      }
    }
    unit.push({task.start + task.occupies, t});
    schedule.busy[static_cast<int>(task.unit)] += task.occupies;
    if (last < 0 || done(t) > done(last)) last = t;
    for (const int reader : readers[t]) {
      if (--missing[reader] > 0) continue;
      std::int64_t at = 0;
      for (const int needed : tasks[reader].needs) at = std::max(at, done(needed));
      ready.push({at, reader});
    }
  }
  schedule.cycles = last < 0 ? 0 : done(last);
  for (int unit = 0; unit < kUnits; ++unit) {
    schedule.busy[unit] = (schedule.busy[unit] + count[unit] - 1) / count[unit];
  }
  std::map<std::string, Link> links;
  for (int t = last, next = -1; t >= 0; next = t, t = tasks[t].waited_for) {
    schedule.critical_path.push_back(t);
    Link& link = links[tasks[t].name];
    ++link.times;
    link.cycles += (next < 0 ? done(t) : tasks[next].start) - tasks[t].start;
  }
  std::reverse(schedule.critical_path.begin(), schedule.critical_path.end());
  for (auto& [name, link] : links) {
    link.name = name;
    schedule.links.push_back(link);
  }
  std::sort(schedule.links.begin(), schedule.links.end(),
            [](const Link& a, const Link& b) { return a.cycles > b.cycles; });
  return schedule;
}

LoopModel attention_loop(Loop loop, const LoopShape& shape) {
  const auto& machine = shape.machine;
  const AttentionShape tile{Algorithm::kFlash, shape.block, shape.dim, shape.block, false};
  const AttentionCost cost = attention_cost(tile, Accounting::kPipelined, machine);
  struct Pass {
    std::int64_t occupies, drain;
  };
  const auto pass = [&](const MatrixWork& work) {
    return Pass{work.cycles, std::min(work.k, machine.rows) + std::min(work.n, machine.cols) - 2};
  };
  const Pass scores = pass(cost.matrix[0]), values = pass(cost.matrix[1]);
  const std::int64_t softmax = cost.vector[0].cycles + cost.vector[1].cycles;
  const std::int64_t rescale = cost.vector[2].cycles;
  const std::int64_t load = static_cast<std::int64_t>(std::ceil(
      2.0 * shape.block * shape.dim * shape.bytes_per_element / shape.dma_bytes_per_cycle));

  LoopModel model;
  const auto add = [&](const char* name, Unit unit, std::int64_t occupies, std::int64_t latency,
                       std::vector<int> needs) {
    std::erase(needs, -1);
    model.tasks.push_back({name, unit, occupies, latency, std::move(needs)});
    return static_cast<int>(model.tasks.size()) - 1;
  };
  const auto blocks = static_cast<int>((shape.n - 1) / shape.block + 1);
  std::vector<int> state(blocks, -1), output(blocks, -1);  // last writers of m and l, and of O
  // [anchor: tile_tasks]
  // Adds the tasks of one tile, after K and V are loaded. The state m, l, o makes a row of tiles a
  // chain.
  const auto tile_tasks = [&](int i, int loaded) {
    const int S = add("S = Q @ K.T", Unit::kMxu, scores.occupies, scores.drain, {loaded});
    state[i] = add("softmax", Unit::kVpu, softmax, 0, {S, state[i]});
    const int PV = add("P @ V", Unit::kMxu, values.occupies, values.drain, {state[i]});
    output[i] = add("O += P @ V", Unit::kVpu, rescale, 0, {PV, output[i]});
    return output[i];
  };
  // [/anchor: tile_tasks]
  const auto load_task = [&](std::vector<int> needs) {
    return add("load K, V", Unit::kDma, load, 0, std::move(needs));
  };
  // [anchor: loops]
  if (loop == Loop::kSerial) {
    int last = -1;
    for (int i = 0; i < blocks; ++i) {
      for (int j = 0; j < blocks; ++j) last = tile_tasks(i, load_task({last}));
    }
    model.iterations = std::int64_t{blocks} * blocks;
  } else if (loop == Loop::kVmap) {
    std::vector<int> iteration;  // last tasks of an iteration, all of which must end before the
                                 // next
    for (int j = 0; j < blocks; ++j) {
      const int loaded = load_task(iteration);
      iteration.clear();
      for (int i = 0; i < blocks; ++i) iteration.push_back(tile_tasks(i, loaded));
    }
    model.iterations = blocks;
  } else {
    std::vector<int> done;  // tile t uses the buffer of tile t − buffers
    const auto buffers = static_cast<std::size_t>(shape.buffers);
    for (int i = 0; i < blocks; ++i) {
      for (int j = 0; j < (loop == Loop::kSplash ? i + 1 : blocks); ++j) {
        const int before = done.size() < buffers ? -1 : done[done.size() - buffers];
        done.push_back(tile_tasks(i, load_task({before})));
      }
    }
    model.iterations = static_cast<std::int64_t>(done.size());
  }
  // [/anchor: loops]
  return model;
}

}  // namespace ch18
