#include <doctest/doctest.h>

#include <stdexcept>
#include <wait_group.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using fa::simt::EventKind;

constexpr int NUM_THREADS = 64;
constexpr uint32_t TILE_BYTES = NUM_THREADS * 16;

static void wait(int groups, int line = __builtin_LINE()) {
  if (groups < 0) throw std::runtime_error("cp_async_wait<" + std::to_string(groups) + ">");
  exercise::wait_for_groups(groups, line);
}

// What the loops of README.md do with tiles of K and V, without the arithmetic.
struct Schedule {
  int stages, num_tiles, groups;
  const float *K, *V;

  void copy(const float* gmem, uint32_t smem, int tile) const {
    if (tile >= num_tiles) return;
    cp_async_16(smem + tile % stages * TILE_BYTES + thread_index() * 16,
                gmem + (tile * NUM_THREADS + thread_index()) * 4, 16);
  }
  uint32_t V_smem() const { return dynamic_smem() + stages * TILE_BYTES; }
  void load_K(int tile) const { copy(K, dynamic_smem(), tile), cp_async_commit(); }
  void load_V(int tile) const { copy(V, V_smem(), tile), cp_async_commit(); }
  void load_both(int tile) const {
    copy(K, dynamic_smem(), tile);
    copy(V, V_smem(), tile), cp_async_commit();
  }
  void use(uint32_t smem, int tile) const {
    const uint32_t other = (thread_index() + NUM_THREADS / 2) % NUM_THREADS;
    load_shared<float>(smem + tile % stages * TILE_BYTES + other * 16);
  }
  void wait_and_sync() const { wait(groups), block_sync(); }

  void run_one_group() const {
    for (int tile = 0; tile < stages - 1; ++tile) load_both(tile);
    for (int tile = 0; tile < num_tiles; ++tile) {
      load_both(tile + stages - 1);
      wait_and_sync();
      use(dynamic_smem(), tile);
      use(V_smem(), tile);
      block_sync();
    }
  }
  void run_two_groups(bool loads_first) const {
    for (int tile = 0; tile < stages - 1; ++tile) load_K(tile), load_V(tile);
    for (int tile = 0; tile < num_tiles; ++tile) {
      if (loads_first) load_K(tile + stages - 1);
      wait_and_sync();
      if (!loads_first) load_K(tile + stages - 1);
      use(dynamic_smem(), tile);
      if (loads_first) load_V(tile + stages - 1);
      wait_and_sync();
      if (!loads_first) load_V(tile + stages - 1);
      use(V_smem(), tile);
    }
  }
};

// Returns the hazards with this N, and the tiles that have landed after the first wait.
template <class Run>
static std::string consequence(int stages, int groups, bool together, Run run) {
  if (groups < 0) return "there is no cp_async_wait<" + std::to_string(groups) + ">";
  const int num_tiles = 2 * stages + 1;
  fa::simt::Buffer<float> K(num_tiles * TILE_BYTES / 4, "K"), V(num_tiles * TILE_BYTES / 4, "V");
  fa::simt::Config config;
  config.events = true;
  const auto report = exercise::run_block(
      NUM_THREADS, 2 * stages * TILE_BYTES,
      [&] {
        run(Schedule{stages, num_tiles, groups, K.data(), V.data()});
      },
      config);
  std::string landed, flying;
  int committed = 0, arrived = 0;
  bool waited = false;
  for (const fa::simt::Event& event : report.events) {
    if (event.warp != 0) continue;
    if (event.kind == EventKind::kWait) waited = true;
    if (event.kind == EventKind::kCommit && !waited) ++committed;
    if (event.kind == EventKind::kLand) ++arrived;
    if (event.kind == EventKind::kBarrier) break;
  }
  for (int group = 0; group < committed; ++group) {
    const std::string tile = std::to_string(together ? group : group / 2);
    const std::string name = together ? "KV" : group % 2 ? "V" : "K";
    (group < arrived ? landed : flying) += " " + name + tile;
  }
  return exercise::hazards(report) +
         "after the first wait, landed:" + (landed.empty() ? " nothing" : landed) +
         "; in flight:" + (flying.empty() ? " nothing" : flying);
}

// The right functions, and each mistake as a change to them, where N is times * stages + plus.
// People make a mistake in one of them, or in some, or in all.
struct Way {
  exercise::Changes is;

  int number(const char* function, int times, int plus, int stages) const {
    const std::string name = function;
    return is.integer(name + "-times", times) * stages + is.integer(name + "-plus", plus);
  }
  int loads_first(int stages) const { return number("first", 2, -2, stages); }
  int loads_after(int stages) const { return number("after", 2, -3, stages); }
  int one_group(int stages) const { return number("one", 1, -1, stages); }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int loads_first(int stages) const { return ex05::loads_first(stages); }
  int loads_after(int stages) const { return ex05::loads_after(stages); }
  int one_group(int stages) const { return ex05::one_group(stages); }
};

static const exercise::Table MISTAKES(R"(
$first_two = first-times=0 first-plus=2
$after_two = after-times=0 after-plus=1
$one_two = one-times=0 one-plus=1
$first_0 = first-times=0 first-plus=0
$after_0 = after-times=0 after-plus=0
$one_0 = one-times=0 one-plus=0
$first_s = first-times=1 first-plus=0
$after_s = after-times=1 after-plus=0
order-ignored: after-plus=-2
  the load comes after the wait, so that at the wait its group is not in flight yet: one fewer than
  when loads come first
two-groups-a-tile: one-times=2 one-plus=-2
  K and V of a tile are one group here, so a tile counts once
needed-one-counted: {first-plus=-1,first-plus=0} {after-plus=-2,after-plus=-1,after-plus=0,} {one-plus=0,};
    {after-plus=-1,after-plus=0} {one-plus=0,}; one-plus=0 {,after-plus=-2}
  N is the number of groups that may stay in flight. The one that is needed is not one of them
tiles-for-groups: first-times=1 first-plus=-1 {,after-times=1 after-plus=-1,after-times=1 after-plus=-2};
    after-times=1 {after-plus=-1,after-plus=-2}
  N counts groups, and a tile has two, one for K and one for V
for-two-stages: $first_two {,$after_two} {,$one_two}; $after_two {,$one_two}; $one_two
  right for two stages. The number of stages is a parameter
one-too-few: first-plus=-3 {,after-plus=-4} {,one-plus=-2}; after-plus=-4 {,one-plus=-2}; one-plus=-2
  right, but N is one smaller than it could be, so that each wait waits for a group that is not
  needed yet. A load before the wait has committed its group already, and V of a tile, if it has a
  separate group, is younger than its K
waits-for-all: $first_0 {,$after_0} {,$one_0}; $after_0 {,$one_0}; $one_0
  right, but each wait waits for every copy that is on its way
stages-for-groups: $first_s {,$after_s} {,one-plus=0}; $after_s {,one-plus=0}
  N is the number of stages. It should be the number of groups that may stay in flight
)");

// Checks one of the functions: of(Way{}, stages).
template <class Of, class Run>
static void check_schedule(const std::string& name, bool together, Of of, Run run) {
  for (int stages = 2; stages <= 4; ++stages) {
    const int got = of(Answer{}, stages);
    const std::string seen =
        got == of(Way{}, stages) ? "" : consequence(stages, got, together, run);
    INFO(seen);
    exercise::check_output<Way, Answer>(
        {name + "(" + std::to_string(stages) + ")", 0, 0}, MISTAKES, [&](const auto& functions) {
          return exercise::Numbers{static_cast<double>(of(functions, stages))};
        });
  }
}

const auto first = [](const Schedule& schedule) { schedule.run_two_groups(true); };
const auto after = [](const Schedule& schedule) { schedule.run_two_groups(false); };
const auto one = [](const Schedule& schedule) { schedule.run_one_group(); };

TEST_CASE("loads first") {
  check_schedule(
      "loads_first", false, [](auto f, int s) { return f.loads_first(s); }, first);
}
TEST_CASE("loads after") {
  check_schedule(
      "loads_after", false, [](auto f, int s) { return f.loads_after(s); }, after);
}
TEST_CASE("one group per tile") {
  check_schedule(
      "one_group", true, [](auto f, int s) { return f.one_group(s); }, one);
}

// The numbers above are those that the emulator accepts, and one less waits for more.
TEST_CASE("the schedules") {
  const auto finds_hazard = [](int stages, int groups, bool together, auto run) {
    return consequence(stages, groups, together, run).find("read_before_wait") != std::string::npos;
  };
  for (int stages = 2; stages <= 4; ++stages) {
    CHECK(!finds_hazard(stages, 2 * stages - 2, false, first));
    CHECK(finds_hazard(stages, 2 * stages - 1, false, first));
    CHECK(!finds_hazard(stages, 2 * stages - 3, false, after));
    CHECK(finds_hazard(stages, 2 * stages - 2, false, after));
    CHECK(!finds_hazard(stages, stages - 1, true, one));
    CHECK(finds_hazard(stages, stages, true, one));
  }
}
