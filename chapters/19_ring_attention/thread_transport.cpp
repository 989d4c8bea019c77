#include "thread_transport.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ch19 {

namespace {

// One message, from both sides: the send and the receive that belong together share it.
struct Letter : Message {
  int from = 0, to = 0, channel = 0;
  const float* source = nullptr;
  float* target = nullptr;
  size_t size = 0;
  bool sent = false, received = false;  // has this side called?
  bool done = false;
};

using Shared = std::shared_ptr<Letter>;

class World {
 public:
  explicit World(int ranks) : ranks_(ranks), open_(2 * ranks * ranks), waits_for_(ranks) {}

  int ranks() const { return ranks_; }

  // The oldest message between the two that lacks this side.
  Shared match(int from, int to, Tag tag, size_t size, bool sends) {
    const int channel = (static_cast<int>(tag) * ranks_ + from) * ranks_ + to;
    std::deque<Shared>& open = open_[channel];
    for (const auto& one : open) {
      if (sends ? one->sent : one->received) continue;
      if (one->size != size) {
        throw std::invalid_argument("rank " + std::to_string(from) + " sends " +
                                    std::to_string(sends ? size : one->size) + " numbers to rank " +
                                    std::to_string(to) + ", which receives " +
                                    std::to_string(sends ? one->size : size));
      }
      return one;
    }
    open.push_back(std::make_shared<Letter>());
    Letter& letter = *open.back();
    letter.from = from, letter.to = to, letter.channel = channel, letter.size = size;
    return open.back();
  }

  Request send(int from, int to, Tag tag, const float* source, size_t size) {
    const std::lock_guard lock(mutex_);
    const Shared message = match(from, to, tag, size, true);
    message->source = source;
    message->sent = true;
    changed_.notify_all();
    return message;
  }
  Request receive(int from, int to, Tag tag, float* target, size_t size) {
    const std::lock_guard lock(mutex_);
    const Shared message = match(from, to, tag, size, false);
    message->target = target;
    message->received = true;
    changed_.notify_all();
    return message;
  }

  void wait(int rank, const Request& request) {
    const Shared message = std::static_pointer_cast<Letter>(request);
    std::unique_lock lock(mutex_);
    waits_for_[rank] = message.get();
    while (!message->done && !both_sides(*message)) {
      const int other = message->from == rank ? message->to : message->from;
      if (lost_ == other) {
        throw RankLost("rank " + std::to_string(rank) + ": rank " + std::to_string(other) +
                       " has ended before it had " + (message->from == rank ? "received" : "sent") +
                       " what was due");
      }
      if (lost_ >= 0 || deadlock_ || stuck()) fail(rank);
      changed_.wait(lock);
    }
    waits_for_[rank] = nullptr;
    if (message->done) return;
    std::copy_n(message->source, message->size, message->target);
    message->done = true;
    std::deque<Shared>& open = open_[message->channel];
    open.erase(std::find(open.begin(), open.end(), message));
    changed_.notify_all();
  }

  void end(int rank, bool lost) {
    const std::lock_guard lock(mutex_);
    ++ended_;
    if (lost && lost_ < 0 && !deadlock_) lost_ = rank;
    changed_.notify_all();
  }

 private:
  static bool both_sides(const Letter& message) { return message.sent && message.received; }

  // Does everybody who has not ended wait for a message that lacks a side?
  bool stuck() const {
    int waiting = 0;
    for (const Letter* one : waits_for_) waiting += one && !one->done && !both_sides(*one);
    return waiting + ended_ == ranks_;
  }
  [[noreturn]] void fail(int rank) {
    const std::string who = "rank " + std::to_string(rank);
    if (lost_ >= 0) throw RankLost(who + ": rank " + std::to_string(lost_) + " has ended");
    deadlock_ = true;
    changed_.notify_all();
    throw Deadlock(who + ": all ranks wait for one another, and nothing is on its way");
  }

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<Shared>> open_;  // [tag, from, to]: messages that lack a side or a copy
  std::vector<const Letter*> waits_for_;  // of each rank
  int ended_ = 0, lost_ = -1;             // lost: ended by an exception of its own
  bool deadlock_ = false;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return world_.ranks(); }
  Request send(int to, Tag tag, std::span<const float> numbers) override {
    bytes_sent_ += static_cast<int64_t>(numbers.size_bytes());
    return world_.send(rank_, to, tag, numbers.data(), numbers.size());
  }
  Request receive(int from, Tag tag, std::span<float> numbers) override {
    return world_.receive(from, rank_, tag, numbers.data(), numbers.size());
  }
  void wait(const Request& request) override {
    if (request) world_.wait(rank_, request);
  }

 private:
  World& world_;
  int rank_;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Transport&)>& work) {
  World world(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadTransport transport(world, rank);
      bool lost = false;
      try {
        work(transport);
      } catch (...) {
        lost = true;
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      world.end(rank, lost);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace ch19
