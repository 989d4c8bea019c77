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

using namespace emulator;

constexpr int SCHEDULES = 3;

// What one warp did, and which turn it was: tile * consumers + consumer.
struct Entry {
  enum Kind { kIssue, kIssued, kSoftmax, kComputed } kind;
  int turn, warp;
};

struct Run {
  std::vector<Entry> log;
  std::string first;    // what was wrong first, in words
  std::string hazards;  // or what was thrown
  std::string kinds;
  std::string lacking;  // "128 of 256 threads have arrived"
  bool out_of_turn = false, overlapped = false, complete = true;
  bool done[16][2] = {};  // of each warp of the slow consumer
};

struct Steps {
  Run& run;
  int consumers, num_tiles, slow;  // slow: the consumer that computes until the others have

  void write(Entry::Kind kind, int tile) const {
    if (lane_index() != 0) return;
    const int consumer = warp_index() / 4;
    if ((tile < 0 || tile >= num_tiles) && run.first.empty())
      run.first = "issue or softmax of tile " + std::to_string(tile) + ", and there are " +
                  std::to_string(num_tiles) + " tiles\n";
    run.log.push_back({kind, tile * consumers + consumer, warp_index()});
  }
  // Have all computed whose turns come between this one and the same consumer's next?
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
    // Lane 0 looks, and all lanes hear of it behind the next warp_sync.
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
  // Does each warp issue and compute each tile once, in order?
  std::vector<int> done(4 * consumers);
  for (const Entry& entry : run.log) {
    const int i = done[entry.warp]++;
    run.complete &= entry.kind == i % 4 && entry.turn == i / 4 * consumers + entry.warp / 4;
  }
  for (const int entries : done) run.complete &= entries == 4 * num_tiles;
  if (!run.complete && run.first.empty())
    run.first = "not each warp has called issue and softmax once for each tile, in this order\n";
  // Does a warp issue while one of another consumer computes?
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
    return overlapped ? ""
                      : "all issue in turns, but nobody issues while another computes its softmax";
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

// The loop as people write it: right as it stands here, and each mistake is a change.
struct Way {
  enum At {
    kOwn,
    kNext,
    kPrevious,
    kOne,
    kNoModulo,
    kModuloTwo,
    kOther
  } wait = kOwn,
    arrive = kNext;
  enum Count { kTwo, kOneGroup, kAll, kBlock, kGroups } wait_count = kTwo, arrive_count = kTwo;
  int base = 1;
  enum First {
    kLast,
    kNobody,
    kFirst,
    kEverybody,
    kConsumerOne,
    kLastToItself,
    kToItself,  // consumer 0; right
    kSkips,     // consumer 0 does not wait for its first; right
    kLastWaits  // the last one meets consumer 0; right
  } first = kLast;
  enum Turn {
    kWaitIssueArrive,
    kArriveBeforeIssue,
    kArriveBehindSoftmax,
    kNeverArrive,
    kNeverWait,
    kWaitBehindIssue,
    kWaitOnce,
    kSyncForArrive,
    kOneThreadArrives,
    kOneWarpArrives,
    kLastDoesNotArrive,  // behind the last tile; right
    kMeetAll,            // one barrier for all before each issue
    kSyncButLast,        // as kSyncForArrive, but not behind the last tile
    kMeetBehindSoftmax,
    kLastBehindSoftmax,  // the last consumer passes behind its softmax, the others before it
    kNoPassAtTheEnd      // of the last tile, by nobody
  } turn = kWaitIssueArrive;
};

static void consume_with(const Way& way, const Steps& steps, int consumer, int consumers,
                         int num_tiles) {
  const auto barrier = [&](Way::At at) {
    switch (at) {
      case Way::kOwn:
        return way.base + consumer;
      case Way::kNext:
        return way.base + (consumer + 1) % consumers;
      case Way::kPrevious:
        return way.base + (consumer + consumers - 1) % consumers;
      case Way::kNoModulo:
        return way.base + consumer + 1;
      case Way::kModuloTwo:
        return way.base + (consumer + 1) % 2;
      case Way::kOther:
        return way.base + 1 - consumer;
      case Way::kOne:
        break;
    }
    return way.base;
  };
  const auto count = [&](Way::Count of) {
    return of == Way::kTwo        ? 256
           : of == Way::kOneGroup ? 128
           : of == Way::kAll      ? 128 * consumers
           : of == Way::kBlock    ? 128 * (1 + consumers)
                                  : 2;
  };
  const auto wait = [&] { ex15::barrier_sync(barrier(way.wait), count(way.wait_count)); };
  const auto arrive = [&] { ex15::barrier_arrive(barrier(way.arrive), count(way.arrive_count)); };
  const bool last = consumer == consumers - 1;
  if ((way.first == Way::kLast && last) || (way.first == Way::kFirst && consumer == 0) ||
      way.first == Way::kEverybody || (way.first == Way::kConsumerOne && consumer == 1))
    arrive();
  if ((way.first == Way::kLastToItself && last) || (way.first == Way::kToItself && consumer == 0))
    ex15::barrier_arrive(way.base + consumer, 256);
  if (way.first == Way::kLastWaits && last) ex15::barrier_sync(way.base, 256);
  for (int tile = 0; tile < num_tiles; ++tile) {
    const bool skips = way.first == Way::kSkips && consumer == 0 && tile == 0;
    if (way.turn == Way::kMeetAll) {
      ex15::barrier_sync(way.base, 128 * consumers);
      steps.issue(tile);
      steps.softmax(tile);
      continue;
    }
    const bool waits = way.turn != Way::kNeverWait && way.turn != Way::kWaitBehindIssue &&
                       (way.turn != Way::kWaitOnce || tile == 0);
    if (waits && !skips) wait();
    if (way.turn == Way::kArriveBeforeIssue) arrive();
    steps.issue(tile);
    if (way.turn == Way::kWaitBehindIssue) wait();
    if (way.turn == Way::kSyncForArrive)
      ex15::barrier_sync(barrier(way.arrive), count(way.arrive_count));
    if (way.turn == Way::kSyncButLast && (!last || tile + 1 < num_tiles))
      ex15::barrier_sync(barrier(way.arrive), count(way.arrive_count));
    const bool arrives = way.turn == Way::kWaitIssueArrive || way.turn == Way::kMeetBehindSoftmax ||
                         (way.turn == Way::kLastBehindSoftmax && !last) ||
                         (way.turn == Way::kNoPassAtTheEnd && tile + 1 < num_tiles) ||
                         way.turn == Way::kNeverWait || way.turn == Way::kWaitBehindIssue ||
                         way.turn == Way::kWaitOnce ||
                         (way.turn == Way::kOneThreadArrives && thread_index() % 128 == 0) ||
                         (way.turn == Way::kOneWarpArrives && warp_index() % 4 == 0) ||
                         (way.turn == Way::kLastDoesNotArrive && (!last || tile + 1 < num_tiles));
    if (arrives) arrive();
    steps.softmax(tile);
    if (way.turn == Way::kArriveBehindSoftmax || (way.turn == Way::kLastBehindSoftmax && last))
      arrive();
    if (way.turn == Way::kMeetBehindSoftmax)
      ex15::barrier_sync(way.base + consumers, 128 * consumers);
  }
}

using Wrong = exercise::Wrong<Way>;

static std::vector<Wrong> wrong_ways() {
  using W = Way;
  return {
      {"nobody-gives-the-first-turn",
       "all wait for a turn, and nobody has one to pass: the last consumer arrives at consumer 0's "
       "barrier before its loop",
       {{.first = W::kNobody}}},
      {"first-turn-by-the-first",
       "consumer 0 gives the first turn, and gives it to consumer 1; the one before consumer 0 is "
       "the last",
       {{.first = W::kFirst}}},
      {"first-turn-by-all",
       "every consumer gives a first turn: then all have one at once. One turn goes round",
       {{.first = W::kEverybody}}},
      {"first-turn-to-the-last",
       "the last consumer arrives at its own barrier for the first turn; it is consumer 0's",
       {{.first = W::kLastToItself}}},
      {"two-consumers-only",
       "this is right for two consumers; the next one is (consumer + 1) % consumers, and the last "
       "consumers - 1",
       {{.first = W::kConsumerOne},
        {.arrive = W::kModuloTwo},
        {.arrive = W::kModuloTwo, .first = W::kConsumerOne},
        {.arrive = W::kOther},
        {.arrive = W::kOther, .first = W::kConsumerOne}}},
      {"count-of-those-who-wait",
       "the count is 128, that of those who wait: they open the barrier by themselves, and nobody "
       "waits for a turn. Those who arrive are counted, too",
       {{.wait_count = W::kOneGroup, .arrive_count = W::kOneGroup}}},
      {"counts-differ",
       "those who wait and those who arrive give different counts for one barrier; both give 256",
       {{.wait_count = W::kOneGroup}, {.arrive_count = W::kOneGroup}}},
      {"count-of-all-consumers",
       "the count is that of all consumers, or of a producer besides; at a barrier meet two of "
       "them, the one that waits and the one before it",
       {{.wait_count = W::kAll, .arrive_count = W::kAll},
        {.wait_count = W::kBlock, .arrive_count = W::kBlock}}},
      {"count-in-warpgroups",
       "the count is one of threads, in whole warps",
       {{.wait_count = W::kGroups, .arrive_count = W::kGroups}}},
      {"arrives-at-its-own",
       "a consumer arrives at the barrier where it waits itself; it passes the turn on at that of "
       "the next one",
       {{.arrive = W::kOwn}, {.arrive = W::kOwn, .first = W::kToItself}}},
      {"turns-go-backwards",
       "the turn is passed to the consumer before: each waits at its own barrier and arrives at "
       "that of consumer + 1",
       {{.wait = W::kNext, .arrive = W::kOwn},
        {.wait = W::kNext, .arrive = W::kOwn, .first = W::kFirst},
        {.arrive = W::kPrevious},
        {.arrive = W::kPrevious, .first = W::kFirst}}},
      {"same-barrier-for-all",
       "all wait and arrive at one barrier: whoever comes opens it for another. Each consumer has "
       "one of its own",
       {{.wait = W::kOne, .arrive = W::kOne}}},
      {"all-meet",
       "all consumers meet at a barrier, and then issue at once",
       {{.turn = W::kMeetAll}}},
      {"all-meet-behind-the-softmax",
       "all consumers meet behind each softmax: the fast ones wait for the slowest. The turns are "
       "enough",
       {{.turn = W::kMeetBehindSoftmax}}},
      {"last-tile-not-passed",
       "no turn is passed behind the last tile; but consumers 1 and on still have theirs to take",
       {{.turn = W::kNoPassAtTheEnd}}},
      {"barrier-zero",
       "barrier 0 is block_sync's; named barriers are 1 to 15",
       {{.base = 0}, {.wait = W::kOne, .arrive = W::kOne, .base = 0}}},
      {"no-way-round",
       "behind the last consumer comes consumer 0: % consumers. The last one passes the turn to a "
       "barrier where nobody waits",
       {{.arrive = W::kNoModulo}, {.arrive = W::kNoModulo, .first = W::kToItself}}},
      {"passes-before-it-issues",
       "the turn is passed on before the products are issued: the next one may be first",
       {{.turn = W::kArriveBeforeIssue}}},
      {"passes-behind-the-softmax",
       "the turn is passed on behind the softmax: nobody issues while another computes, and that "
       "is what turns are for",
       {{.turn = W::kArriveBehindSoftmax}, {.turn = W::kLastBehindSoftmax}}},
      {"never-passes",
       "the turn is never passed on: behind the first consumer all wait for ever",
       {{.turn = W::kNeverArrive}}},
      {"never-waits",
       "not each tile waits for its turn before it is issued",
       {{.turn = W::kNeverWait}, {.turn = W::kWaitOnce}}},
      {"waits-behind-the-issue",
       "a consumer waits for its turn when it has issued; the wait belongs before",
       {{.turn = W::kWaitBehindIssue}}},
      {"sync-to-pass",
       "a consumer passes its turn with barrier_sync, and so waits there itself, up to when the "
       "next one has ended its softmax. barrier_arrive goes on",
       {{.turn = W::kSyncForArrive},
        {.first = W::kLastWaits, .turn = W::kSyncForArrive},
        {.turn = W::kSyncButLast},
        {.first = W::kLastWaits, .turn = W::kSyncButLast}}},
      {"one-thread-passes",
       "one thread arrives for its warpgroup; a named barrier counts threads, and all 128 arrive",
       {{.turn = W::kOneThreadArrives}}},
      {"one-warp-passes",
       "one warp arrives for its warpgroup; a named barrier counts threads, and all 128 arrive",
       {{.turn = W::kOneWarpArrives}}},
  };
}

static void check_turns(int consumers, int num_tiles) {
  const Runs seen = run_all(consumers, num_tiles, [](auto&&... args) { ex15::consume(args...); });
  std::vector<exercise::Look> looks;
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      const Runs other =
          run_all(consumers, num_tiles, [&](auto&&... args) { consume_with(way, args...); });
      looks.push_back({wrong.name, other.shown, wrong.explanation});
      CAPTURE(std::string(wrong.name));
      if (consumers == 3) CHECK(other.message() != "");
    }
  exercise::check_shown(seen.message().empty(), seen.message(), seen.shown, looks);
}

TEST_CASE("two consumers, two tiles") { check_turns(2, 2); }
TEST_CASE("three consumers, two tiles") { check_turns(3, 2); }
TEST_CASE("four consumers, one tile") { check_turns(4, 1); }

TEST_CASE("other right answers") {
  using W = Way;
  for (const Way& way : {W{}, W{.first = W::kToItself}, W{.first = W::kSkips},
                         W{.first = W::kLastWaits}, W{.turn = W::kLastDoesNotArrive}, W{.base = 5}})
    for (const int consumers : {2, 3})
      CHECK(run_all(consumers, 3, [&](auto&&... args) { consume_with(way, args...); }).message() ==
            "");
}
