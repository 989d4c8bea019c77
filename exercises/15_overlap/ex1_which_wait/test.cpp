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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int groups_that_may_fly(const std::string& text, char result) const {
    std::vector<std::string> closed;  // groups
    std::string open;                 // not committed
    int first = -1, last = -1;        // groups with a wgmma into the result
    for (const char c : text) {
      if (c != '|') open += c;
      if (c != '|') continue;
      if (open.find(result) != std::string::npos) last = static_cast<int>(closed.size());
      if (first < 0) first = last;
      closed.push_back(open);
      open.clear();
    }
    const int count = static_cast<int>(closed.size());
    if (open.find(result) != std::string::npos && !is("open-forgotten"))
      return is("open-group-waited-for") ? 0 : -1;
    if (is("since-the-last")) {  // wgmma into the result, all counted one by one
      const std::string rest = text.substr(text.rfind(result) + 1);
      return static_cast<int>(rest.size() - std::count(rest.begin(), rest.end(), '|'));
    }
    if (is("another-result-is-open") && !open.empty()) return -1;
    if (is("group-or-0") && last < 0) return 0;
    if (is("group-or-none") && last < 0) return -1;
    int wgmmas = is("open-wgmma") ? static_cast<int>(open.size()) : 0, not_empty = 0, of_result = 0;
    std::string others;
    for (int i = 0; i < count; ++i) {
      const bool is_newer = i > last;
      wgmmas += is_newer ? static_cast<int>(closed[i].size()) : 0;
      not_empty += is_newer && !closed[i].empty();
      of_result += i < last && closed[i].find(result) != std::string::npos;
      for (const char c : closed[i])
        if (is_newer && others.find(c) == std::string::npos) others += c;
    }
    const int newer = count - 1 - last;
    return is("number")                 ? last
           : is("groups-before")        ? last + 1
           : is("fixed")                ? is.integer("fixed", 0)
           : is("one-too-few")          ? std::max(newer - 1, 0)
           : is("from-the-first")       ? (first < 0 ? -1 : count - 1 - first)
           : is("wgmma-counted")        ? wgmmas
           : is("empty-group-skipped")  ? not_empty
           : is("groups-of-the-result") ? of_result
           : is("others")               ? static_cast<int>(others.size())
                                        : newer + is("itself") + (is("open") && !open.empty());
  }
};

static const exercise::Table MISTAKES(R"(
group-itself-counted: itself {,open-forgotten}
  N counts the group that is needed, too, so that this group may stay in flight. Count only the groups
  committed after it
number-of-the-group: {number,groups-before,number open-forgotten}
  this is the number of the group, or of the groups before it. N counts the groups committed after it
wait-for-all: fixed=0 {,open-forgotten}
  wgmma_wait<0> waits for groups that are not needed here. N may be as large as the number of groups
  after the one that is needed
always-one: fixed=1 {,open-forgotten}
  N is 1 for every program. It is the number of groups committed after the one that is needed
one-too-few
  N is one less than it may be: none of the groups after the one that is needed has to have ended
first-of-the-result: from-the-first {,open-forgotten}
  N is counted from the first group that adds to the result. A later one adds to it, too, and must
  have ended
wgmma-counted: wgmma-counted {,open-wgmma}; since-the-last {,open-forgotten}
  N counts wgmma. wgmma_wait counts groups, and a group may hold many
empty-group-skipped
  a commit with no wgmma since the last one closes a group, too: an empty one, and N counts it
open-group-counted: open {,open-group-waited-for}
  wgmma that were not committed are in no group yet, and N does not count them
open-group-waited-for
  no wait waits for a wgmma that was not committed: the answer is -1, and wgmma_wait<0> does not help
open-group-forgotten: open-forgotten {group-or-none,group-or-0}
  this is N for the groups that were committed. A later wgmma into the same result was not, and no
  wait waits for it: -1
another-result-is-open
  a wgmma into another result was not committed. This result's groups all were, and a wait ends them
groups-of-the-result
  N counts the groups that add to this result only. wgmma_wait counts all groups
other-results-counted: others
  N is the number of other results in flight after the one that is needed. wgmma_wait counts groups,
  and several may add to the same result
)");

// The learner's answer, to be called as a Way is.
struct Answer {
  int groups_that_may_fly(const std::string& text, char result) const {
    return ::groups_that_may_fly(program_of(text), result);
  }
};

// "S, commit, O"
static std::string spelled(const std::string& text) {
  std::string words;
  for (const char c : text)
    words += (words.empty() ? "" : ", ") + (c == '|' ? "commit" : std::string(1, c));
  return words;
}

static void check_program(const std::string& text) {
  const std::string results = results_of(text);
  std::vector<std::string> labels;
  std::string seen = "the program: " + spelled(text);
  for (const char result : results) {
    const int groups = Answer{}.groups_that_may_fly(text, result);
    labels.emplace_back(1, result);
    if (groups == Way{}.groups_that_may_fly(text, result) || groups < 0) continue;
    const std::string flying = in_flight(text, groups);
    seen += "\nthe emulator: after wgmma_wait<" + std::to_string(groups) + "> " +
            (flying.empty() ? "nothing" : spelled(flying)) + " is in flight";
    seen += flying.find(result) != std::string::npos
                ? std::string(", and ") + result + " is read"
                : std::string("; for ") + result + " less of a wait would do";
  }
  INFO(seen);
  exercise::check_output<Way, Answer>({"N", 0, 0, labels}, MISTAKES, [&](const auto& answer) {
    exercise::Numbers all;
    for (const char result : results) all.push_back(answer.groups_that_may_fly(text, result));
    return all;
  });
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

// The answer that this test expects agrees with the emulator, where N is enough, and N + 1 is not.
TEST_CASE("the programs") {
  for (const std::string text : kPrograms)
    for (const char result : results_of(text)) {
      CAPTURE(text);
      CAPTURE(result);
      const int groups = Way{}.groups_that_may_fly(text, result);
      CHECK(in_flight(text, groups + 1).find(result) != std::string::npos);
      if (groups >= 0) CHECK(in_flight(text, groups).find(result) == std::string::npos);
    }
}
