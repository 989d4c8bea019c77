#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "exercises/support/warp.hpp"

// The answer's barriers come by here.
namespace emulator::ex15 {
static std::set<std::string> counts;  // "arrive 256"
inline void barrier_sync(int barrier, int threads, FA_SITE) {
  if (lane_index() == 0) counts.insert("sync " + std::to_string(threads));
  emulator::barrier_sync(barrier, threads, line, file);
}
inline void barrier_arrive(int barrier, int threads, FA_SITE) {
  if (lane_index() == 0) counts.insert("arrive " + std::to_string(threads));
  emulator::barrier_arrive(barrier, threads, line, file);
}
}  // namespace emulator::ex15

#include <turns.hpp>

using exercise::Changes;
using namespace emulator;

constexpr int SCHEDULES = 3;
constexpr int ALL = -1, BLOCK = -2;  // counts of all consumers, and of a producer too

// The action of one warp, and its turn, which is tile * consumers + consumer.
struct Entry {
  enum Kind { kIssue, kIssued, kSoftmax, kComputed } kind;
  int turn, warp;
};

struct Run {
  std::vector<Entry> log;
  std::string first;    // the first error, in words
  std::string hazards;  // or what was thrown
  std::string kinds;
  std::string lacking;  // "128 of 256 threads have arrived"
  bool out_of_turn = false, overlapped = false, complete = true;
  bool done[16][2] = {};  // for each warp of the slow consumer
};

struct Steps {
  Run& run;
  int consumers, num_tiles, slow;  // slow is the consumer that computes until the others have

  void write(Entry::Kind kind, int tile) const {
    if (lane_index() != 0) return;
    const int consumer = warp_index() / 4;
    if ((tile < 0 || tile >= num_tiles) && run.first.empty())
      run.first = "issue or softmax of tile " + std::to_string(tile) + ", and there are " +
                  std::to_string(num_tiles) + " tiles\n";
    run.log.push_back({kind, tile * consumers + consumer, warp_index()});
  }
  // True if all consumers have computed whose turns come between this one and the same consumer's
  // next.
  bool others_done(int turn) const {
    const int next = std::min(turn + consumers, consumers * num_tiles);
    std::vector<int> warps(next);
    for (const Entry& entry : run.log)
      if (entry.kind == Entry::kComputed && entry.turn < next) ++warps[entry.turn];
    return std::all_of(warps.begin() + turn + 1, warps.end(), [](int n) { return n == 4; });
  }
  void issue(int tile, FA_SITE) const {
    write(Entry::kIssue, tile);
    for (int i = 0; i < 2; ++i) warp_sync(line, file);  // others may run meanwhile
    write(Entry::kIssued, tile);
  }
  void softmax(int tile, FA_SITE) const {
    write(Entry::kSoftmax, tile);
    const int turn = tile * consumers + warp_index() / 4;
    for (int i = 0; i < 4; ++i) warp_sync(line, file);
    // Lane 0 looks, and all lanes know the result after the next warp_sync.
    for (int i = 0; i < 1000 && warp_index() / 4 == slow; ++i) {
      bool& done = run.done[warp_index()][i % 2];
      if (lane_index() == 0) done = others_done(turn);
      warp_sync(line, file);
      if (done) break;
    }
    write(Entry::kComputed, tile);
  }
};

static std::string named(int turn, int consumers) {
  return "consumer " + std::to_string(turn % consumers) + "'s tile " +
         std::to_string(turn / consumers);
}

// The order in which they issued, and whether that is the order of turns.
static void judge(Run& run, int consumers, int num_tiles) {
  std::vector<int> order;
  for (const Entry& entry : run.log) {
    if (entry.kind != Entry::kIssue && entry.kind != Entry::kIssued) continue;
    if (order.empty() || order.back() != entry.turn) order.push_back(entry.turn);
  }
  const int turns = consumers * num_tiles;
  for (int i = 0; i < std::ssize(order) && !run.out_of_turn; ++i) {
    if (order[i] == i) continue;
    run.out_of_turn = true;
    if (run.first.empty())
      run.first =
          (i == 0 ? "issued first: " : "issued behind " + named(order[i - 1], consumers) + ": ") +
          named(order[i], consumers) + ", expected " +
          (i < turns ? named(i, consumers) : "nothing more") + "\n";
  }
  if (std::ssize(order) < turns && run.first.empty())
    run.first =
        std::to_string(order.size()) + " turns were taken of " + std::to_string(turns) + "\n";
  // Checks that each warp issues and computes each tile once, in order.
  std::vector<int> done(4 * consumers);
  for (const Entry& entry : run.log) {
    const int i = done[entry.warp]++;
    run.complete &= entry.kind == i % 4 && entry.turn == i / 4 * consumers + entry.warp / 4;
  }
  for (const int entries : done) run.complete &= entries == 4 * num_tiles;
  if (!run.complete && run.first.empty())
    run.first = "not each warp has called issue and softmax once for each tile, in this order\n";
  // Checks that a warp issues while one of another consumer computes.
  std::set<int> computing;
  for (const Entry& entry : run.log) {
    if (entry.kind == Entry::kSoftmax) computing.insert(entry.warp);
    if (entry.kind == Entry::kComputed) computing.erase(entry.warp);
    if (entry.kind == Entry::kIssue)
      for (const int warp : computing) run.overlapped |= warp / 4 != entry.warp / 4;
  }
}

// While the slow consumer computes, the others can take all turns up to its next one, and compute,
// too. In words what they have not done, or nothing.
static std::string who_waited(const Run& run, const Steps& steps) {
  std::vector<int> computed(steps.consumers * steps.num_tiles);  // warps, of each turn
  for (const Entry& entry : run.log) {
    if (entry.kind != Entry::kComputed) continue;
    if (entry.warp / 4 == steps.slow) {
      const int next = std::min<int>(entry.turn + steps.consumers, std::ssize(computed));
      for (int turn = entry.turn + 1; turn < next; ++turn)
        if (computed[turn] < 4)
          return "while consumer " + std::to_string(steps.slow) +
                 " computed a long softmax of its tile " +
                 std::to_string(entry.turn / steps.consumers) + ", " +
                 named(turn, steps.consumers) + " waited for it\n";
    }
    ++computed[entry.turn];
  }
  return "";
}

template <class Consume>
static Run run(int consumers, int num_tiles, uint64_t schedule, Consume consume, int slow = -1) {
  Run result;
  ex15::counts.clear();
  fa::simt::Config config;
  config.schedule_seed = schedule;
  config.counters = false;
  try {
    const fa::simt::Report report = exercise::run_block(
        128 * consumers, 0,
        [&] {
          Steps steps{result, consumers, num_tiles, slow};
          consume(steps, warp_index() / 4, consumers, num_tiles);
        },
        config);
    result.hazards = exercise::hazards(report);
    result.kinds = exercise::hazard_kinds(report);
    if (!result.kinds.empty())
      for (const std::string& count : ex15::counts) result.kinds += count + "\n";
  } catch (const std::runtime_error& error) {
    result.hazards = std::string(error.what()) + "\n";
    result.kinds = result.hazards.substr(result.hazards.find(':') + 1);  // without the number
    if (result.hazards.starts_with("barrier 0:")) result.kinds += "barrier 0\n";
    for (const std::string& count : ex15::counts)
      if (std::stoi(count.substr(count.find(' '))) % 32 != 0) result.kinds += "no whole warp\n";
  }
  const std::string words = "where ";
  for (size_t at = 0; (at = result.hazards.find(words, at)) != std::string::npos; ++at)
    result.lacking += result.hazards.substr(at, result.hazards.find("arrived", at) - at) + "\n";
  judge(result, consumers, num_tiles);
  if (slow >= 0 && result.first.empty() && result.hazards.empty())
    result.first = who_waited(result, {result, consumers, num_tiles, slow});
  return result;
}

// The same under several orders of the warps, as who is late is chance.
struct Runs {
  Run first;  // the first that is wrong, or that of the first order
  bool overlapped = false;
  std::string shown;  // all that a mistake must explain

  std::string message() const {
    if (!first.hazards.empty() || !first.first.empty()) return first.hazards + first.first;
    return overlapped
               ? ""
               : "all issue in turns, but no consumer issues while another computes its softmax";
  }
};

template <class Consume>
static Runs run_all(int consumers, int num_tiles, Consume consume) {
  Runs runs;
  for (uint64_t schedule = 0; schedule < SCHEDULES; ++schedule) {
    Run one = run(consumers, num_tiles, schedule, consume);
    runs.overlapped |= one.overlapped;
    runs.shown +=
        one.kinds + (one.out_of_turn ? "out of turn\n" : "") + (one.complete ? "" : "incomplete\n");
    if (schedule == 0) {
      runs.shown += one.lacking;
      for (const Entry& entry : one.log)
        if (entry.kind == Entry::kIssue && one.hazards.empty())
          runs.shown += std::to_string(entry.turn) + " ";
    }
    const bool right = runs.first.hazards.empty() && runs.first.first.empty();
    if (schedule == 0 || right) runs.first = std::move(one);
  }
  for (int slow = 0; slow < consumers && runs.message().empty(); ++slow) {
    Run one = run(consumers, num_tiles, 1, consume, slow);
    runs.shown += one.first;
    runs.first = std::move(one);
  }
  runs.shown += runs.overlapped ? "overlaps" : "nothing overlaps";
  return runs;
}

// The right loop, and each mistake as a change to it. "wait-at-next": the consumer waits at the
// barrier of the next one. "wait-count=2": how many threads it says.
static void consume_with(const Changes& is, const Steps& steps, int consumer, int consumers,
                         int num_tiles) {
  const int base = is("barrier-0") ? 0 : is("barrier-5") ? 5 : 1;
  const auto count = [&](const char* name) {
    const int threads = is.integer(name, 256);
    return threads == ALL ? 128 * consumers : threads == BLOCK ? 128 * (1 + consumers) : threads;
  };
  const int wait_at = base + (is("wait-at-next")  ? (consumer + 1) % consumers
                              : is("wait-at-one") ? 0
                                                  : consumer);
  const int arrive_at = base + (is("arrive-at-own")        ? consumer
                                : is("arrive-at-previous") ? (consumer + consumers - 1) % consumers
                                : is("arrive-at-one")      ? 0
                                : is("arrive-no-modulo")   ? consumer + 1
                                : is("arrive-modulo-two")  ? (consumer + 1) % 2
                                : is("arrive-at-other")    ? 1 - consumer
                                                           : (consumer + 1) % consumers);
  const auto wait = [&] { ex15::barrier_sync(wait_at, count("wait-count")); };
  const auto arrive = [&] { ex15::barrier_arrive(arrive_at, count("arrive-count")); };
  const bool last = consumer == consumers - 1, zero = consumer == 0;
  const bool gives_first = is("first-turn-by-the-first") ? zero
                           : is("consumer-one")          ? consumer == 1
                           : is.any("nobody-gives-the-first-turn", "first-turn-to-the-last",
                                    "to-itself", "skips", "last-waits")
                               ? false
                               : last || is("first-turn-by-all");
  if (gives_first) arrive();
  if ((is("first-turn-to-the-last") && last) || (is("to-itself") && zero))
    ex15::barrier_arrive(base + consumer, 256);
  if (is("last-waits") && last) ex15::barrier_sync(base, 256);
  for (int tile = 0; tile < num_tiles; ++tile) {
    const bool last_turn = last && tile + 1 == num_tiles;
    if (is("all-meet")) {
      ex15::barrier_sync(base, 128 * consumers);
      steps.issue(tile);
      steps.softmax(tile);
      continue;
    }
    if (!is.any("never-wait", "waits-behind-the-issue") && !(is("wait-once") && tile > 0) &&
        !(is("skips") && zero && tile == 0))
      wait();
    if (is("passes-before-it-issues")) arrive();
    steps.issue(tile);
    if (is("waits-behind-the-issue")) wait();
    const bool syncs = is("sync-for-arrive") || (is("sync-but-last") && !last_turn);
    if (syncs) ex15::barrier_sync(arrive_at, count("arrive-count"));
    const bool passes = is("last-behind-softmax")    ? !last
                        : is("last-tile-not-passed") ? tile + 1 < num_tiles
                        : is("one-thread-passes")    ? thread_index() % 128 == 0
                        : is("one-warp-passes")      ? warp_index() % 4 == 0
                        : is("last-does-not-arrive")
                            ? !last_turn
                            : !is.any("passes-before-it-issues", "arrive-behind-softmax",
                                      "never-passes", "sync-for-arrive", "sync-but-last");
    if (passes) arrive();
    steps.softmax(tile);
    if (is("arrive-behind-softmax") || (is("last-behind-softmax") && last)) arrive();
    if (is("all-meet-behind-the-softmax")) ex15::barrier_sync(base + consumers, 128 * consumers);
  }
}

static const exercise::Table MISTAKES(R"(
nobody-gives-the-first-turn
  all consumers wait for a turn, and none has one to pass. The last consumer must arrive at consumer
  0's barrier before its loop
first-turn-by-the-first
  consumer 0 gives the first turn, and gives it to consumer 1. The last consumer precedes consumer 0
  and must give it
first-turn-by-all
  every consumer gives a first turn: then all have one at once. One turn goes round
first-turn-to-the-last
  the last consumer arrives at its own barrier for the first turn. It should arrive at consumer 0's
two-consumers-only: consumer-one; {arrive-modulo-two,arrive-at-other} {,consumer-one}
  this is right for two consumers. The next one is (consumer + 1) % consumers, and the last
  consumers - 1
count-of-those-who-wait: wait-count=128 arrive-count=128
  the count is 128, the number of threads that wait. They open the barrier themselves, and no
  consumer waits for a turn. The threads that arrive are counted, too
counts-differ: {wait,arrive}-count=128
  those who wait and those who arrive give different counts for one barrier. Both give 256
count-of-all-consumers: wait-count=-1 arrive-count=-1; wait-count=-2 arrive-count=-2
  the count includes all consumers, or a producer, too. Two warpgroups meet at a barrier: the one
  that waits and its predecessor
count-in-warpgroups: wait-count=2 arrive-count=2
  the count is one of threads, in whole warps
arrives-at-its-own: arrive-at-own {,to-itself}
  a consumer arrives at the barrier where it waits itself. It has to arrive at that of the next
  consumer
turns-go-backwards: {wait-at-next arrive-at-own,arrive-at-previous} {,first-turn-by-the-first}
  the turn is passed to the consumer before: each waits at its own barrier and arrives at that of
  consumer + 1
same-barrier-for-all: wait-at-one arrive-at-one
  all consumers wait and arrive at one barrier, so that each opens it for any other. Each consumer
  needs a separate barrier
all-meet
  all consumers meet at a barrier, and then issue at once
all-meet-behind-the-softmax
  all consumers meet after each softmax, so that the fast ones wait for the slowest. The turns are
  enough
last-tile-not-passed
  no turn is passed after the last tile, but consumers 1 and above still need theirs
barrier-zero: barrier-0 {,wait-at-one arrive-at-one}
  barrier 0 is block_sync's. Named barriers are 1 to 15
no-way-round: arrive-no-modulo {,to-itself}
  after the last consumer comes consumer 0: use % consumers. The last one passes the turn to a
  barrier where no thread waits
passes-before-it-issues
  the turn is passed on before the products are issued: the next one may be first
passes-behind-the-softmax: arrive-behind-softmax; last-behind-softmax
  the turn is passed after the softmax, so that no consumer issues while another computes, which is
  the purpose of the turns
never-passes
  the turn is never passed, so that after the first consumer all wait forever
never-waits: never-wait; wait-once
  not each tile waits for its turn before it is issued
waits-behind-the-issue
  a consumer waits for its turn after it has issued. The wait belongs before
sync-to-pass: {,last-waits }{sync-for-arrive,sync-but-last}
  a consumer passes its turn with barrier_sync, so that it waits there until the next consumer has
  ended its softmax. barrier_arrive does not wait
one-thread-passes
  one thread arrives for its warpgroup. A named barrier counts threads, and all 128 arrive
one-warp-passes
  one warp arrives for its warpgroup. A named barrier counts threads, and all 128 arrive
)");

static Runs run_with(const Changes& is, int consumers, int num_tiles) {
  return run_all(consumers, num_tiles, [&](auto&&... args) { consume_with(is, args...); });
}

static void check_turns(int consumers, int num_tiles) {
  const Runs seen = run_all(consumers, num_tiles, [](auto&&... args) { ex15::consume(args...); });
  std::vector<exercise::Look> looks;
  for (const exercise::Row& row : MISTAKES) {
    const Runs other = run_with(row.changes, consumers, num_tiles);
    looks.push_back({row.name, other.shown, row.explanation});
    CAPTURE(row.name);
    if (consumers == 3) CHECK(other.message() != "");
  }
  exercise::check_shown(seen.message().empty(), seen.message(), seen.shown, looks);
}

TEST_CASE("two consumers, two tiles") { check_turns(2, 2); }
TEST_CASE("three consumers, two tiles") { check_turns(3, 2); }
TEST_CASE("four consumers, one tile") { check_turns(4, 1); }

TEST_CASE("other right answers") {
  for (const char* const is :
       {"", "to-itself", "skips", "last-waits", "last-does-not-arrive", "barrier-5"})
    for (const int consumers : {2, 3}) CHECK(run_with(Changes(is), consumers, 3).message() == "");
}
