#include "exercises/support/ring.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "common/simt/fiber.hpp"

namespace exercise {
namespace {

using fa::simt::Fiber;

constexpr float NOTHING = std::numeric_limits<float>::quiet_NaN();

// One message, from both sides, where the send and the receive that belong together share it.
struct Letter {
  int from = 0, to = 0;
  ch19::Tag tag = ch19::Tag::keys;
  bool sent = false, received = false;  // has this side called?
  std::vector<float> content;           // as it was when the send was called
};

// One side of it.
struct Side : ch19::Message {
  std::shared_ptr<Letter> letter;
  std::span<const float> memory;
  std::span<float> target;  // target of a receive
  bool waited = false;
};

bool overlap(std::span<const float> a, std::span<const float> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

class Turns {
 public:
  explicit Turns(int ranks)
      : sides_(ranks), waits_for_(ranks), fibers_(ranks), stacks_(fa::simt::borrow_stacks(ranks)) {}
  ~Turns() { fa::simt::give_back_stacks(std::move(stacks_)); }
  Turns(const Turns&) = delete;

  int ranks() const { return static_cast<int>(sides_.size()); }
  std::vector<std::shared_ptr<Side>>& sides(int rank) { return sides_[rank]; }

  // The oldest message between the two that lacks this side.
  std::shared_ptr<Letter> match(int from, int to, ch19::Tag tag, bool sends) {
    for (const auto& one : letters_)
      if (one->from == from && one->to == to && one->tag == tag &&
          !(sends ? one->sent : one->received))
        return one;
    letters_.push_back(std::make_shared<Letter>());
    letters_.back()->from = from, letters_.back()->to = to, letters_.back()->tag = tag;
    return letters_.back();
  }

  // Runs work(rank), which throws nothing, for each rank, on a separate stack.
  void run(const std::function<void(int)>& work) {
    work_ = &work;
    running = this;
    for (int rank = 0; rank < ranks(); ++rank) stacks_->prepare(fibers_[rank], rank, main_of_rank);
    turn_ = 0;
    fa::simt::switch_fiber(main_, fibers_[0]);
  }

  // False if no rank can continue.
  bool wait_for(int rank, const Letter& letter) {
    if (letter.sent && letter.received) return true;
    waits_for_[rank] = &letter;
    turn_ = next();
    if (turn_ != rank) fa::simt::switch_fiber(fibers_[rank], fibers_[turn_]);
    waits_for_[rank] = nullptr;
    return letter.sent && letter.received;
  }

 private:
  static void main_of_rank(fa::simt::transfer_t from) {
    Turns& turns = *running;
    const int rank = turns.turn_;
    fa::simt::arrive_on(&turns.fibers_[rank], from);
    (*turns.work_)(rank);
    turns.fibers_[rank].ended = true;
    turns.turn_ = turns.next();
    fa::simt::leave_fiber(turns.fibers_[rank],
                          turns.turn_ < 0 ? turns.main_ : turns.fibers_[turns.turn_]);
  }

  // Returns the next rank that can continue, or, if there is none, one that waits, or -1 if all
  // have ended.
  int next() const {
    for (const bool stuck : {false, true})
      for (int i = 1; i <= ranks(); ++i) {
        const int rank = (turn_ + i) % ranks();
        const Letter* const letter = waits_for_[rank];
        if (!fibers_[rank].ended && (stuck || !letter || (letter->sent && letter->received)))
          return rank;
      }
    return -1;
  }

  inline static Turns* running;
  std::vector<std::shared_ptr<Letter>> letters_;           // in the order in which they began
  std::vector<std::vector<std::shared_ptr<Side>>> sides_;  // for each rank, all it has started
  std::vector<const Letter*> waits_for_;                   // one for each rank
  std::vector<Fiber> fibers_;
  Fiber main_;
  std::unique_ptr<fa::simt::StackPool> stacks_;
  const std::function<void(int)>* work_ = nullptr;
  int turn_ = 0;
};

int WatchedTransport::ranks() const { return turns_.ranks(); }

ch19::Request WatchedTransport::send(int to, ch19::Tag tag, std::span<const float> numbers) {
  if (to < 0 || to >= ranks()) {
    note_fault("sends to rank " + std::to_string(to) + ", which does not exist");
    return nullptr;
  }
  if (to == rank_ && ranks() > 1) note_fault("sends to itself");
  if (is_received(numbers)) note_fault("sends a buffer into which a receive is under way");
  sent_to_.push_back(to);
  auto side = std::make_shared<Side>();
  side->letter = turns_.match(rank_, to, tag, true);
  side->letter->sent = true;
  side->letter->content.assign(numbers.begin(), numbers.end());
  side->memory = numbers;
  bytes_sent_ += static_cast<int64_t>(numbers.size_bytes());
  turns_.sides(rank_).push_back(side);
  return side;
}

ch19::Request WatchedTransport::receive(int from, ch19::Tag tag, std::span<float> numbers) {
  if (from < 0 || from >= ranks()) {
    note_fault("receives from rank " + std::to_string(from) + ", which does not exist");
    return nullptr;
  }
  if (from == rank_ && ranks() > 1) note_fault("receives from itself");
  if (is_sent(numbers)) note_fault("receives into a buffer that is still being sent");
  if (is_received(numbers)) note_fault("receives twice into one buffer at the same time");
  auto side = std::make_shared<Side>();
  side->letter = turns_.match(from, rank_, tag, false);
  side->letter->received = true;
  side->memory = side->target = numbers;
  std::fill(numbers.begin(), numbers.end(), NOTHING);
  ++receives_started_;
  turns_.sides(rank_).push_back(side);
  return side;
}

void WatchedTransport::wait(const ch19::Request& request) {
  const auto side = std::dynamic_pointer_cast<Side>(request);
  if (!side || side->waited) return;
  const Letter& letter = *side->letter;
  const bool sends = side->target.empty();
  if (!turns_.wait_for(rank_, letter)) {
    note_fault("deadlock: it waits until rank " + std::to_string(sends ? letter.to : letter.from) +
               (sends ? " receives" : " sends") + ", and no rank can continue");
    throw ch19::Deadlock("no rank can continue");
  }
  side->waited = true;
  if (!std::all_of(side->target.begin(), side->target.end(), [](float x) { return x != x; })) {
    note_fault("writes into a buffer into which a receive is under way");
  }
  if (letter.content.size() != side->memory.size()) {
    note_fault("a message has another size than its receive");
  } else if (!sends) {
    std::copy(letter.content.begin(), letter.content.end(), side->target.begin());
  } else if (std::memcmp(letter.content.data(), side->memory.data(), side->memory.size_bytes()) !=
             0) {
    note_fault("changes a buffer while it is being sent");
  }
}

int WatchedTransport::sends_under_way() const {
  const auto& sides = turns_.sides(rank_);
  return static_cast<int>(std::count_if(sides.begin(), sides.end(), [](const auto& one) {
    return !one->waited && one->target.empty();
  }));
}
int WatchedTransport::receives_under_way() const {
  const auto& sides = turns_.sides(rank_);
  return static_cast<int>(std::count_if(sides.begin(), sides.end(), [](const auto& one) {
    return !one->waited && !one->target.empty();
  }));
}
bool WatchedTransport::is_sent(std::span<const float> memory) const {
  const auto& sides = turns_.sides(rank_);
  return std::any_of(sides.begin(), sides.end(), [&](const auto& one) {
    return !one->waited && one->target.empty() && overlap(one->memory, memory);
  });
}
bool WatchedTransport::is_received(std::span<const float> memory) const {
  const auto& sides = turns_.sides(rank_);
  return std::any_of(sides.begin(), sides.end(), [&](const auto& one) {
    return !one->waited && !one->target.empty() && overlap(one->memory, memory);
  });
}

void WatchedTransport::note_fault(const std::string& fault) {
  if (std::find(faults_.begin(), faults_.end(), fault) == faults_.end()) faults_.push_back(fault);
  std::sort(faults_.begin(), faults_.end());  // their order depends on which was called first
}

void run_watched(int ranks, const std::function<void(WatchedTransport&)>& work,
                 const std::function<void(const WatchedTransport&)>& ended) {
  Turns turns(ranks);
  std::vector<WatchedTransport> transports;
  for (int rank = 0; rank < ranks; ++rank) transports.emplace_back(turns, rank);
  std::exception_ptr first;
  turns.run([&](int rank) {
    WatchedTransport& transport = transports[rank];
    try {
      work(transport);
      const int left = transport.sends_under_way() + transport.receives_under_way();
      if (left > 0) transport.note_fault("ends before it has waited for all that it started");
    } catch (const ch19::Deadlock&) {
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
  for (const WatchedTransport& transport : transports) ended(transport);
}

std::string difference(const std::vector<std::string>& got,
                       const std::vector<std::string>& expected) {
  const std::string fault = "    fault: ";
  const auto has_fault_of_its_own = [&](const std::string& text) {
    for (size_t at = text.find(fault); at != std::string::npos; at = text.find(fault, at + 1)) {
      if (text.compare(at + fault.size(), 8, "deadlock") != 0) return true;
    }
    return false;
  };
  size_t shown = got.size();
  for (size_t rank = got.size(); rank-- > 0;) {
    if (got[rank] == expected[rank]) continue;
    const bool tells = has_fault_of_its_own(got[rank]);
    if (shown == got.size() || tells || !has_fault_of_its_own(got[shown])) shown = rank;
  }
  return shown == got.size() ? "" : "expected\n" + expected[shown] + "  got\n" + got[shown];
}

}  // namespace exercise
