#pragma once
// Ranks of a ring, watched. They are threads that take turns: one runs until it waits for what is
// not there yet, or ends. So each run is the same, and what a rank does wrong is noted in the same
// place.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "chapters/19_ring_attention/transport.hpp"

namespace exercise {

class Turns;  // whose turn it is, and what is under way between the ranks

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
  int sends_started() const { return sends_started_; }
  int receives_started() const { return receives_started_; }

  // In words, each once, sorted.
  void note_fault(const std::string& fault);
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  friend void run_watched(int, const std::function<void(WatchedTransport&)>&,
                          const std::function<void(const WatchedTransport&)>&);
  Turns& turns_;
  int rank_, sends_started_ = 0, receives_started_ = 0;
  std::vector<std::string> faults_;
};

// Runs work(transport) for each rank, and then ended(transport), rank after rank. Who waits when
// nobody can go on has that as a fault, and is ended. Rethrows what else a rank throws.
void run_watched(int ranks, const std::function<void(WatchedTransport&)>& work,
                 const std::function<void(const WatchedTransport&)>& ended);

}  // namespace exercise
