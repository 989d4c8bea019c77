#pragma once
// Ranks of a ring, watched. Each has a separate stack, and they take turns. One runs until it
// waits for what is not there yet, or ends. So each run is the same, and the errors of a rank are
// recorded in the same place.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "chapters/19_ring_attention/transport.hpp"
#include "exercises/support/verdict.hpp"

namespace exercise {

class Turns;  // whose turn it is, and the messages under way between the ranks

class WatchedTransport final : public ch19::Transport {
 public:
  WatchedTransport(Turns& turns, int rank) : turns_(turns), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override;
  // A send takes what is in the memory now. Into the memory of a receive goes NaN, until wait()
  // puts what was sent there.
  ch19::Request send(int to, ch19::Tag tag, std::span<const float> numbers) override;
  ch19::Request receive(int from, ch19::Tag tag, std::span<float> numbers) override;
  void wait(const ch19::Request& request) override;

  // Started, and not waited for.
  int sends_under_way() const;
  int receives_under_way() const;
  bool is_sent(std::span<const float> memory) const;      // is a send of some of it under way?
  bool is_received(std::span<const float> memory) const;  // a receive?
  int sends_started() const { return static_cast<int>(sent_to_.size()); }
  const std::vector<int>& sent_to() const { return sent_to_; }  // rank by rank, in order
  int receives_started() const { return receives_started_; }

  // In words, each once, sorted.
  void note_fault(const std::string& fault);
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  friend void run_watched(int, const std::function<void(WatchedTransport&)>&,
                          const std::function<void(const WatchedTransport&)>&);
  Turns& turns_;
  int rank_, receives_started_ = 0;
  std::vector<int> sent_to_;
  std::vector<std::string> faults_;
};

// Runs work(transport) for each rank, and then ended(transport), rank after rank. A rank that waits
// when no rank can continue has that as a fault, and is ended. Rethrows what else a rank throws.
void run_watched(int ranks, const std::function<void(WatchedTransport&)>& work,
                 const std::function<void(const WatchedTransport&)>& ended);

// The words of one rank and the expected ones, empty if all ranks agree. Among those that differ,
// the first with a fault that is no deadlock, because ranks that wait are stuck because of another.
std::string difference(const std::vector<std::string>& got,
                       const std::vector<std::string>& expected);

// Compares what the ranks show with the learner's function and with the test's own answer. The
// result of run(way) has the words of each rank, [ranks]. A rank may call its send before its
// receive, and wait for the send before the receive, so each mistake is tried in all of these
// orders.
template <class Way, class Answer, class Run>
void check_ranks(int ranks, const Table& table, Run run) {
  const auto joined = [](const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& one : lines) all += one;
    return all;
  };
  const std::vector<std::string> got = run(Answer{});
  const std::string wrong = difference(got, run(Way{}));
  std::vector<Look> looks;
  for (const Row& row : table)
    for (const char* order : {"", "send-first", "send-waits-first", "send-first send-waits-first"})
      looks.push_back({row.name, joined(run(Way{row.changes.with(order)})), row.explanation});
  check_shown(wrong.empty(),
              std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + "; " + wrong, joined(got),
              looks);
}

}  // namespace exercise
