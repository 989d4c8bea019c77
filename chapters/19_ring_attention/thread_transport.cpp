#include "thread_transport.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ch19 {

namespace {

// A message between two ranks. It stores the numbers, so that no rank reads another's memory.
struct Letter {
  int from, to;
  size_t size;
  std::vector<float> numbers = {};
  bool sent = false, received = false;  // whether that side has made its call

  bool complete() const { return sent && received; }
};

// One rank's side of a message.
struct Side final : Message {
  std::shared_ptr<Letter> letter;
  const float* memory = nullptr;  // owned by the transport until the rank has waited
  float* target = nullptr;        // where a receive writes
  bool sends = false, waited = false;
};

std::string name(int rank) { return "rank " + std::to_string(rank); }

// Records what a rank waits for, until it continues or throws.
class Waiting {
 public:
  Waiting(const Letter*& place, const Letter& letter) : place_(place) { place = &letter; }
  ~Waiting() { place_ = nullptr; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const Letter*& place_;
};

class World {
 public:
  explicit World(int ranks)
      : ranks_(ranks), open_(3 * ranks * ranks), in_use_(ranks), waits_for_(ranks), lost_(ranks) {}

  int ranks() const { return ranks_; }

  Request send(int from, int to, Tag tag, std::span<const float> numbers) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Side> side = side_of(from, to, tag, numbers, true);
    side->letter->numbers.assign(numbers.begin(), numbers.end());
    return side;
  }
  Request receive(int from, int to, Tag tag, std::span<float> numbers) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Side> side = side_of(from, to, tag, numbers, false);
    side->target = numbers.data();
    return side;
  }

  void wait(int rank, const Request& request) {
    Side& side = static_cast<Side&>(*request);
    if (side.waited) return;
    const Letter& letter = *side.letter;
    std::unique_lock lock(mutex_);
    const Waiting waiting(waits_for_[rank], letter);
    while (!letter.complete()) {
      const int other = letter.from == rank ? letter.to : letter.from;
      if (lost_[other]) {
        throw RankLost(name(rank) + ": " + name(other) + " has ended before it had " +
                       (letter.from == rank ? "received" : "sent") + " what was due");
      }
      if (deadlock_ || stuck()) fail(rank);
      changed_.wait(lock);
    }
    side.waited = true;
    std::erase(in_use_[rank], request);
    if (!side.sends) std::copy(letter.numbers.begin(), letter.numbers.end(), side.target);
  }

  void end(int rank, bool lost) {
    const std::lock_guard lock(mutex_);
    ++ended_;
    lost_[rank] = lost;
    changed_.notify_all();
  }

 private:
  // Returns the oldest message between the two without this side's call, or a new one.
  std::shared_ptr<Side> side_of(int from, int to, Tag tag, std::span<const float> memory,
                                bool sends) {
    const int rank = sends ? from : to;
    check_memory(rank, memory, sends);
    std::deque<std::shared_ptr<Letter>>& open =
        open_[(static_cast<int>(tag) * ranks_ + from) * ranks_ + to];
    auto found = std::find_if(open.begin(), open.end(), [&](const auto& letter) {
      return !(sends ? letter->sent : letter->received);
    });
    if (found == open.end()) {
      open.push_back(std::make_shared<Letter>(Letter{from, to, memory.size()}));
      found = std::prev(open.end());
    }
    auto side = std::make_shared<Side>();
    side->letter = *found;
    side->memory = memory.data();
    side->sends = sends;
    Letter& letter = *side->letter;
    if (letter.size != memory.size()) {
      throw std::invalid_argument(name(from) + " sends " +
                                  std::to_string(sends ? memory.size() : letter.size) +
                                  " numbers to " + name(to) + ", which receives " +
                                  std::to_string(sends ? letter.size : memory.size()));
    }
    (sends ? letter.sent : letter.received) = true;
    in_use_[rank].push_back(side);
    if (letter.complete()) open.erase(found);
    changed_.notify_all();
    return side;
  }

  // Reports memory that is used twice, for which MPI's behaviour is undefined.
  void check_memory(int rank, std::span<const float> memory, bool is_read) const {
    for (const Request& request : in_use_[rank]) {
      const auto& other = static_cast<const Side&>(*request);
      const bool writes = !other.sends;
      const float* const end = other.memory + other.letter->size;
      if (memory.data() >= end || other.memory >= memory.data() + memory.size()) continue;
      if (memory.empty() || (is_read && !writes)) continue;
      throw MemoryInUse(name(rank) + (is_read ? " sends" : " receives into") +
                        " memory that a message " +
                        (writes ? "from " + name(other.letter->from) + " still writes"
                                : "to " + name(other.letter->to) + " still reads"));
    }
  }

  // True if every rank that has not ended waits for an incomplete message.
  bool stuck() const {
    int waiting = 0;
    for (const Letter* one : waits_for_) waiting += one != nullptr && !one->complete();
    return waiting + ended_ == ranks_;
  }
  [[noreturn]] void fail(int rank) {
    const auto lost = std::find(lost_.begin(), lost_.end(), true) - lost_.begin();
    if (!deadlock_ && lost < ranks_)
      throw RankLost(name(rank) + ": " + name(static_cast<int>(lost)) + " has ended");
    deadlock_ = true;
    changed_.notify_all();
    throw Deadlock("all ranks wait for one another, and nothing is on its way");
  }

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<std::shared_ptr<Letter>>> open_;  // [tag, from, to]: incomplete messages
  std::vector<std::vector<Request>> in_use_;               // per rank: not waited for yet
  std::vector<const Letter*> waits_for_;                   // per rank
  std::vector<bool> lost_;                                 // ended by an exception
  int ended_ = 0;
  bool deadlock_ = false;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return world_.ranks(); }
  Request send(int to, Tag tag, std::span<const float> numbers) override {
    bytes_sent_ += static_cast<int64_t>(numbers.size_bytes());
    return world_.send(rank_, to, tag, numbers);
  }
  Request receive(int from, Tag tag, std::span<float> numbers) override {
    return world_.receive(from, rank_, tag, numbers);
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
  std::vector<std::exception_ptr> errors(ranks), consequences(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadTransport transport(world, rank);
      bool lost = true;
      try {
        work(transport);
        lost = false;
      } catch (const RankLost&) {
        consequences[rank] = std::current_exception();
      } catch (...) {
        errors[rank] = std::current_exception();
      }
      world.end(rank, lost);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  for (const std::exception_ptr& error : consequences)
    if (error) std::rethrow_exception(error);
}

}  // namespace ch19
