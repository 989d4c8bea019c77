#include <doctest/doctest.h>

#include <set>
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

using Formula = int (*)(int stages);
enum Function { kLoadsFirst, kLoadsAfter, kOneGroup };
const Formula kRight[] = {[](int s) { return 2 * s - 2; }, [](int s) { return 2 * s - 3; },
                          [](int s) { return s - 1; }};

// The values of the three functions with a mistake. People make it in one of them, or in some, or
// in all: a function may also be right.
struct Wrong {
  const char *name, *explanation;
  std::vector<Formula> formulas[3];
};
const char* const kTiles = "N counts groups, and a tile has two, one for K and one for V";
const char* const kNeeded =
    "N is the number of groups that may stay in flight; the one that is needed is not one of them";
const char* const kTwoStages = "right for two stages; the number of stages is a parameter";
const char* const kTooFew =
    "right, but N is one smaller than it could be, so that each wait waits for a group that is not "
    "needed yet; a load before the wait has committed its group already, and V of a tile, if it "
    "has a separate group, is younger than its K";
const std::vector<Wrong> kWrong = {
    {"order-ignored",
     "the load comes after the wait, so that at the wait its group is not in flight yet: one fewer "
     "than when loads come first",
     {{}, {[](int s) { return 2 * s - 2; }}, {}}},
    {"two-groups-a-tile",
     "K and V of a tile are one group here, so a tile counts once",
     {{}, {}, {[](int s) { return 2 * s - 2; }}}},
    {"needed-one-counted",
     kNeeded,
     {{[](int s) { return 2 * s - 1; }, [](int s) { return 2 * s; }},
      {[](int s) { return 2 * s - 2; }, [](int s) { return 2 * s - 1; },
       [](int s) { return 2 * s; }},
      {[](int s) { return s; }}}},
    {"tiles-for-groups",
     kTiles,
     {{[](int s) { return s - 1; }},
      {[](int s) { return s - 1; }, [](int s) { return s - 2; }},
      {}}},
    {"for-two-stages", kTwoStages, {{[](int) { return 2; }}, {[](int) { return 1; }}, {[](int) {
                                      return 1;
                                    }}}},
    {"one-too-few",
     kTooFew,
     {{[](int s) { return 2 * s - 3; }}, {[](int s) { return 2 * s - 4; }}, {[](int s) {
        return s - 2;
      }}}},
    {"waits-for-all",
     "right, but each wait waits for every copy that is on its way",
     {{[](int) { return 0; }}, {[](int) { return 0; }}, {[](int) { return 0; }}}},
    {"stages-for-groups",
     "N is the number of stages; it is the number of groups that may stay in flight",
     {{[](int s) { return s; }}, {[](int s) { return s; }}, {[](int s) { return s; }}}},
};

// Each mistake in each choice of the functions, once.
struct Variant {
  const Wrong* wrong;
  Formula formulas[3];  // nullptr: the right number
};

static std::vector<Variant> variants() {
  std::vector<Variant> all;
  std::set<std::vector<int>> known;
  const auto add = [&](const Variant& variant) {
    std::vector<int> numbers;
    for (int stages = 2; stages <= 4; ++stages) {
      for (int f = 0; f < 3; ++f)
        numbers.push_back((variant.formulas[f] ? variant.formulas[f] : kRight[f])(stages));
    }
    if (known.insert(numbers).second) all.push_back(variant);
  };
  add({nullptr, {}});  // all right is no mistake
  for (const Wrong& wrong : kWrong) {
    const auto options = [&](int f) {
      std::vector<Formula> formulas = wrong.formulas[f];
      formulas.insert(formulas.begin(), nullptr);
      return formulas;
    };
    for (const Formula first : options(kLoadsFirst)) {
      for (const Formula after : options(kLoadsAfter)) {
        for (const Formula one : options(kOneGroup)) add({&wrong, {first, after, one}});
      }
    }
  }
  all.erase(all.begin());
  return all;
}

template <class Run>
static void check_schedule(const std::string& name, Function function, Formula answer, Run run) {
  for (int stages = 2; stages <= 4; ++stages) {
    const int got = answer(stages), right = kRight[function](stages);
    std::vector<exercise::Mistake> mistakes;
    for (const Variant& variant : variants()) {
      const Formula formula = variant.formulas[function];
      mistakes.push_back({variant.wrong->name,
                          {static_cast<double>(formula ? formula(stages) : right)},
                          variant.wrong->explanation});
    }
    const std::string seen =
        got == right ? "" : consequence(stages, got, function == kOneGroup, run);
    INFO(seen);
    exercise::check_output({name + "(" + std::to_string(stages) + ")", 0, 0},
                           {static_cast<double>(got)}, {static_cast<double>(right)}, mistakes);
  }
}

TEST_CASE("loads first") {
  check_schedule("loads_first", kLoadsFirst, ex05::loads_first,
                 [](const Schedule& schedule) { schedule.run_two_groups(true); });
}
TEST_CASE("loads after") {
  check_schedule("loads_after", kLoadsAfter, ex05::loads_after,
                 [](const Schedule& schedule) { schedule.run_two_groups(false); });
}
TEST_CASE("one group per tile") {
  check_schedule("one_group", kOneGroup, ex05::one_group,
                 [](const Schedule& schedule) { schedule.run_one_group(); });
}

// The numbers above are those that the emulator accepts, and one less waits for more.
TEST_CASE("the schedules") {
  const auto finds_hazard = [](int stages, int groups, bool together, auto run) {
    return consequence(stages, groups, together, run).find("read_before_wait") != std::string::npos;
  };
  for (int stages = 2; stages <= 4; ++stages) {
    const auto first = [](const Schedule& schedule) { schedule.run_two_groups(true); };
    const auto after = [](const Schedule& schedule) { schedule.run_two_groups(false); };
    const auto one = [](const Schedule& schedule) { schedule.run_one_group(); };
    CHECK(!finds_hazard(stages, 2 * stages - 2, false, first));
    CHECK(finds_hazard(stages, 2 * stages - 1, false, first));
    CHECK(!finds_hazard(stages, 2 * stages - 3, false, after));
    CHECK(finds_hazard(stages, 2 * stages - 2, false, after));
    CHECK(!finds_hazard(stages, stages - 1, true, one));
    CHECK(finds_hazard(stages, stages, true, one));
  }
}
