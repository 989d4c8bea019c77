#include <doctest/doctest.h>

#include <algorithm>
#include <which_wait.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;

// "S|OO|S|": wgmma into S, commit, two into O, commit, …
static Program program_of(const std::string& text) {
  Program program;
  for (const char c : text)
    program.push_back(c == '|' ? Step{Step::kCommit} : Step{Step::kWgmma, c});
  return program;
}

static std::string results_of(const std::string& text) {
  std::string results;
  for (const char c : text)
    if (c != '|' && results.find(c) == std::string::npos) results += c;
  return results;
}

// The results that are in flight after the program and wgmma_wait<N>, according to the emulator.
static std::string in_flight(const std::string& text, int groups) {
  std::string found;
  fa::simt::Config config;
  config.hazards = config.counters = false;
  exercise::run_block(
      128, 1024,
      [&] {
        store_shared<uint64_t>(dynamic_smem() + static_cast<uint32_t>(thread_index()) * 8, 0);
        fence_proxy_async();
        block_sync();
        const uint64_t B = wgmma_descriptor(dynamic_smem(), 16, 1024, Swizzle::bytes_128);
        const std::string results = results_of(text);
        float sum[8][1][4] = {};
        uint32_t A[4] = {};
        for (const Step& step : program_of(text)) {
          if (step.kind == Step::kCommit) {
            wgmma_commit();
          } else {
            wgmma_fence();
            wgmma<bf16>(sum[results.find(step.result)], A, B, true);
          }
        }
        emulator::detail::wgmma_wait(groups, {}, __LINE__, __FILE__);
        for (size_t i = 0; i < results.size(); ++i)  // what is in flight is NaN
          if (thread_index() == 0 && !(sum[i][0][0] == 0)) found += results[i];
        emulator::detail::wgmma_wait(0, {}, __LINE__, __FILE__);
      },
      config);
  return found;
}

// The groups of a program, and the answers that people give.
struct Groups {
  std::vector<std::string> closed = {""};
  std::string open;           // not committed
  int first = -1, last = -1;  // with a wgmma into the result

  Groups(const std::string& text, char result) {
    for (const char c : text) {
      if (c == '|') {
        closed.emplace_back();
      } else {
        closed.back() += c;
      }
    }
    open = closed.back();
    closed.pop_back();
    for (int i = 0; i < count(); ++i) {
      if (closed[i].find(result) == std::string::npos) continue;
      if (first < 0) first = i;
      last = i;
    }
  }
  int count() const { return static_cast<int>(closed.size()); }
  bool is_open(char result) const { return open.find(result) != std::string::npos; }
};

static int newer(const Groups& g) { return g.count() - 1 - g.last; }
static int right(const Groups& g, char result) { return g.is_open(result) ? -1 : newer(g); }

struct Wrong {
  const char *name, *explanation;
  int (*answer)(const Groups& g, char result);
};

const std::vector<Wrong> kWrong = {
    {"group-itself-counted",
     "N counts the group that is needed, too, so that this group may stay in flight. Count only "
     "the groups committed after it",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : newer(g) + 1; }},
    {"group-itself-counted",
     "N counts the group that is needed, too, so that this group may stay in flight. Count only "
     "the groups committed after it",
     [](const Groups& g, char) { return newer(g) + 1; }},
    {"number-of-the-group",
     "this is the number of the group, or of the groups before it. N counts the groups committed "
     "after it",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : g.last; }},
    {"number-of-the-group",
     "this is the number of the group, or of the groups before it. N counts the groups committed "
     "after it",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : g.last + 1; }},
    {"number-of-the-group",
     "this is the number of the group, or of the groups before it. N counts the groups committed "
     "after it",
     [](const Groups& g, char) { return g.last; }},
    {"wait-for-all",
     "wgmma_wait<0> waits for groups that are not needed here. N may be as large as the number of "
     "groups after the one that is needed",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : 0; }},
    {"wait-for-all",
     "wgmma_wait<0> waits for groups that are not needed here. N may be as large as the number of "
     "groups after the one that is needed",
     [](const Groups&, char) { return 0; }},
    {"always-one",
     "N is 1 for every program. It is the number of groups committed after the one that is needed",
     [](const Groups&, char) { return 1; }},
    {"always-one",
     "N is 1 for every program. It is the number of groups committed after the one that is needed",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : 1; }},
    {"one-too-few",
     "N is one less than it may be: none of the groups after the one that is needed has to have "
     "ended",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : std::max(newer(g) - 1, 0); }},
    {"first-of-the-result",
     "N is counted from the first group that adds to the result; a later one adds to it, too, and "
     "must have ended",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : g.count() - 1 - g.first; }},
    {"first-of-the-result",
     "N is counted from the first group that adds to the result; a later one adds to it, too, and "
     "must have ended",
     [](const Groups& g, char) { return g.first < 0 ? -1 : g.count() - 1 - g.first; }},
    {"wgmma-counted", "N counts wgmma; wgmma_wait counts groups, and a group may hold many",
     [](const Groups& g, char r) {
       int count = 0;
       for (int i = g.last + 1; i < g.count(); ++i) count += static_cast<int>(g.closed[i].size());
       return g.is_open(r) ? -1 : count;
     }},
    {"wgmma-counted", "N counts wgmma; wgmma_wait counts groups, and a group may hold many",
     [](const Groups& g, char r) {
       int count = static_cast<int>(g.open.size());
       for (int i = g.last + 1; i < g.count(); ++i) count += static_cast<int>(g.closed[i].size());
       return g.is_open(r) ? -1 : count;
     }},
    {"empty-group-skipped",
     "a commit with no wgmma since the last one closes a group, too: an empty one, and N counts it",
     [](const Groups& g, char r) {
       int count = 0;
       for (int i = g.last + 1; i < g.count(); ++i) count += !g.closed[i].empty();
       return g.is_open(r) ? -1 : count;
     }},
    {"open-group-counted",
     "wgmma that were not committed are in no group yet, and N does not count them",
     [](const Groups& g, char r) { return g.is_open(r) ? -1 : newer(g) + !g.open.empty(); }},
    {"open-group-counted",
     "wgmma that were not committed are in no group yet, and N does not count them",
     [](const Groups& g, char r) { return g.is_open(r) ? 0 : newer(g) + !g.open.empty(); }},
    {"open-group-waited-for",
     "no wait waits for a wgmma that was not committed: the answer is -1, and wgmma_wait<0> does "
     "not help",
     [](const Groups& g, char r) { return g.is_open(r) ? 0 : newer(g); }},
    {"open-group-forgotten",
     "this is N for the groups that were committed; a later wgmma into the same result was not, "
     "and no wait waits for it: -1",
     [](const Groups& g, char) { return g.last < 0 ? -1 : newer(g); }},
    {"open-group-forgotten",
     "this is N for the groups that were committed; a later wgmma into the same result was not, "
     "and no wait waits for it: -1",
     [](const Groups& g, char) { return g.last < 0 ? 0 : newer(g); }},
    {"another-result-is-open",
     "a wgmma into another result was not committed; this result's groups all were, and a wait "
     "ends them",
     [](const Groups& g, char) { return g.open.empty() ? newer(g) : -1; }},
    {"groups-of-the-result",
     "N counts the groups that add to this result only; wgmma_wait counts all groups",
     [](const Groups& g, char r) {
       int count = 0;
       for (int i = g.first; i >= 0 && i < g.last; ++i)
         count += g.closed[i].find(r) != std::string::npos;
       return g.is_open(r) ? -1 : count;
     }},
    {"other-results-counted",
     "N is the number of other results in flight after the one that is needed. wgmma_wait counts "
     "groups, and several may add to the same result",
     [](const Groups& g, char r) {
       std::string others;
       for (int i = g.last + 1; i < g.count(); ++i)
         for (const char c : g.closed[i])
           if (others.find(c) == std::string::npos) others += c;
       return g.is_open(r) ? -1 : static_cast<int>(others.size());
     }},
};

static exercise::Numbers all(const std::string& text, int (*answer)(const Groups&, char)) {
  exercise::Numbers numbers;
  for (const char result : results_of(text))
    numbers.push_back(answer(Groups(text, result), result));
  return numbers;
}

// "S, commit, O"
static std::string spelled(const std::string& text) {
  std::string words;
  for (const char c : text)
    words += (words.empty() ? "" : ", ") + (c == '|' ? "commit" : std::string(1, c));
  return words;
}

static void check_program(const std::string& text) {
  const std::string results = results_of(text);
  exercise::Numbers got;
  std::vector<std::string> labels;
  std::string seen = "the program: " + spelled(text);
  const exercise::Numbers expected = all(text, right);
  for (const char result : results) {
    const int groups = groups_that_may_fly(program_of(text), result);
    const double wanted = expected[got.size()];
    got.push_back(groups);
    labels.emplace_back(1, result);
    if (groups == wanted || groups < 0) continue;
    const std::string flying = in_flight(text, groups);
    seen += "\nthe emulator: after wgmma_wait<" + std::to_string(groups) + "> " +
            (flying.empty() ? "nothing" : spelled(flying)) + " is in flight";
    seen += flying.find(result) != std::string::npos
                ? std::string(", and ") + result + " is read"
                : std::string("; for ") + result + " less of a wait would do";
  }
  INFO(seen);
  std::vector<exercise::Mistake> mistakes;
  for (const Wrong& wrong : kWrong)
    mistakes.push_back({wrong.name, all(text, wrong.answer), wrong.explanation});
  exercise::check_output({"N", 0, 0, labels}, got, expected, mistakes);
}

const char* const kPrograms[] = {"S|O|",  "T|S|O|S|O|", "SSSS|OO|",       "S|OS|T|O|",
                                 "S|O||", "S|T|U|OO|O", "SO|TTV|U||S|T|V"};

TEST_CASE("one group of each") { check_program(kPrograms[0]); }
TEST_CASE("the same result again") { check_program(kPrograms[1]); }
TEST_CASE("several wgmma in a group") { check_program(kPrograms[2]); }
TEST_CASE("two results in a group") { check_program(kPrograms[3]); }
TEST_CASE("an empty group") { check_program(kPrograms[4]); }
TEST_CASE("one was not committed") { check_program(kPrograms[5]); }
TEST_CASE("all of it") { check_program(kPrograms[6]); }

// The answer that this test expects agrees with the emulator: N is enough, and N + 1 is not.
TEST_CASE("the programs") {
  for (const std::string text : kPrograms)
    for (const char result : results_of(text)) {
      CAPTURE(text);
      CAPTURE(result);
      const int groups = right(Groups(text, result), result);
      CHECK(in_flight(text, groups + 1).find(result) != std::string::npos);
      if (groups >= 0) CHECK(in_flight(text, groups).find(result) == std::string::npos);
    }
}
