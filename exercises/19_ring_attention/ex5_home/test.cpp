#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <home.hpp>
#include <string>
#include <vector>

#include "exercises/support/ring.hpp"
#include "exercises/support/verdict.hpp"

using exercise::WatchedTransport;
using AddPart = std::function<void(int step, std::span<float> sum)>;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  std::span<float> bring_home(Transport& transport, std::span<float> here, std::span<float> coming,
                              const AddPart& add_part) const {
    const int rank = transport.rank(), ranks = transport.ranks();
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (is("wrong-direction")) std::swap(next, previous);
    if (is("nobody-sends-to-me")) previous = next;
    if (is("nobody-receives-from-me")) next = previous;
    if (is("its-own-neighbour")) next = previous = rank;
    if (is("ring-open-at-the-end")) next = rank + 1;
    if (is("ring-open-at-the-ends")) next = rank + 1, previous = rank - 1;
    if (is("ring-open-at-rank-zero")) previous = (rank - 1) % ranks;
    std::vector<Request> old;
    if (ranks == 1 && is("nothing-for-one-rank")) return here;
    const int end = is("one-step-more") && ranks > 1         ? ranks + 1
                    : is("last-step-forgotten") && ranks > 1 ? ranks - 1
                                                             : ranks;
    for (int step = is("from-one") ? 1 : 0; step < end; ++step) {
      const int which = is("one-step-ahead")           ? (step + 1) % ranks
                        : is("one-step-back")          ? (step + ranks - 1) % ranks
                        : is("own-part-at-every-step") ? 0
                        : is("rank-minus-step")        ? rank - step
                        : is("steps-counted-down")     ? (ranks - step) % ranks
                        : is("rank-for-step")          ? rank
                        : is("owner")                  ? (rank + ranks - step) % ranks
                                                       : step;
      if (is("sum-cleared")) std::fill(here.begin(), here.end(), 0.0f);
      const bool left_out = (is("from-step-one") && step == 0) ||
                            (is("last-part-left-out") && ranks > 1 && step == ranks - 1) ||
                            (is("first-only") && step > 0) || is("added-while-sent") ||
                            (is("after-arrival") && ranks > 1);
      if (!left_out)
        add_part(which,
                 is("added-to-the-other-buffer") || (is("to-coming") && step > 0) ? coming : here);
      const bool travels = is("none")                 ? false
                           : is("last-hop-forgotten") ? step < ranks - 1
                           : is("travels-once")       ? step == ranks - 1
                                                      : true;
      if ((ranks > 1 || is("sent-to-itself")) && travels) {
        Request received, sent;
        const int to = is("straight-home") && step > 0 ? (rank + ranks - step) % ranks : next;
        const int from = is("straight-home") && step > 0 ? (rank + step) % ranks : previous;
        const auto send = [&] {
          if (!is("no-send")) sent = transport.send(to, Tag::gradients, here);
        };
        const auto receive = [&] {
          if (!is("no-receive")) received = transport.receive(from, Tag::gradients, coming);
        };
        const bool send_first =
            is("waits-send-first") || (is("send-first") && !is("receive-first"));
        if (send_first) send();
        if (is("waits-send-first")) transport.wait(sent);
        receive();
        if (is("receive-first")) transport.wait(received);
        if (!send_first) send();
        if (is("added-while-sent")) add_part(which, here);
        if (is("at-end")) {
          old.push_back(is("send-waits-first") ? sent : received);
          old.push_back(is("send-waits-first") ? received : sent);
        } else if (!is("never")) {
          if (is("send-waits-first") && !is("send-not-waited-for")) transport.wait(sent);
          if (!is("receive-not-waited-for")) transport.wait(received);
          if (!is("send-waits-first") && !is("send-not-waited-for")) transport.wait(sent);
        }
      } else if (is("added-while-sent")) {
        add_part(which, here);
      }
      if (!is("not-swapped") && travels && ranks > 1) std::swap(here, coming);
      if (is("after-arrival") && ranks > 1) add_part(which, here);
    }
    if (is("one-more") && ranks > 1) {
      const Request received = transport.receive(previous, Tag::gradients, coming);
      transport.wait(transport.send(next, Tag::gradients, here));
      transport.wait(received);
      std::swap(here, coming);
    }
    for (const Request& one : old) transport.wait(one);
    if (is("own-part-twice")) add_part(0, here);
    if (is("averaged"))
      for (float& number : here) number /= static_cast<float>(ranks);
    return is("coming") || (is("coming-of-many") && ranks > 1) ? coming : here;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  std::span<float> bring_home(Transport& transport, std::span<float> here, std::span<float> coming,
                              const AddPart& add_part) const {
    return ::bring_home(transport, here, coming, add_part);
  }
};

static const exercise::Table MISTAKES(R"(
last-hop-forgotten
  after the last step the sum is one hop from home: the rank returns the sum for the keys of the
  rank after it
last-step-forgotten
  P - 1 steps: the last rank adds nothing, and the sum is one hop from home. There have to be P of
  them
one-hop-too-many: one-more; one-step-more
  P + 1 hops. P bring the sum home, and one more takes it on to the rank after
never-travels: none; none never
  nothing travelled: the rank's parts for all keys are in one sum. Each belongs to the rank whose
  keys they are
travels-once
  all parts were added to one sum, and that was sent at the end. A sum has one hop after each step
own-part-twice
  the rank's own part was added again when the sum came home. It was the first one in it
own-part-left-out: from-step-one; from-one
  at step 0 nothing was added. The rank's own queries see its own keys too
last-part-left-out
  at the last step nothing was added. That rank's queries see these keys too
only-own-parts: first-only; to-coming
  each sum has one part, its owner's. After step 0 nothing was added, or the part was added to
  `coming`, which the next receive overwrites
one-step-behind: after-arrival; one-step-back
  each part is in the sum of the next step, which is for other keys: it was added after handing on,
  or is that of step - 1. Add first, then hand on
added-while-sent
  the part was added while the sum was being sent. A buffer in flight may not change, and the change
  may or may not arrive
sum-cleared
  the sum was set to 0 at every step, so that the parts of the previous ranks are lost. It is 0 only
  at step 0
one-step-ahead
  the part is that of the next step, for other keys than the sum is for
own-part-at-every-step
  the part for the rank's own keys was added at every step, also to the sums of others
owner-for-step: owner; rank-minus-step
  add_part was given the owner of the keys, rank - step. It takes the step
steps-counted-down
  add_part was given the steps 0, P - 1, P - 2, . They count up: at step s the sum is for the keys
  of rank - s
rank-for-step
  add_part was given the rank. It takes the step
added-to-the-other-buffer
  parts were added to `coming`, which the receive overwrites: to `here`, which is sent
averaged
  the sum was divided by the number of ranks. The parts belong to different queries, so they add up
send-not-waited-for
  only the receive was waited for. The buffer of the send is the one that the next receive writes
receive-not-waited-for
  only the send was waited for. The received sum is not there until the receive is waited for
waits-too-late: never; at-end
  nothing was waited for, or only after the loop. The received sum is not there until then
waits-for-the-send-first: waits-send-first; no-receive
  no receive had been started when the send was waited for: it comes later, or is missing. All ranks
  do that, so that no rank receives: a deadlock
waits-for-the-receive-first: receive-first; no-send
  no send had been started when the receive was waited for: it comes later, or is missing. All ranks
  do that, so that no rank sends: a deadlock
not-swapped: not-swapped; not-swapped coming
  the buffers were never exchanged: the rank adds all its parts to one sum, and sends that. Hand on
  what came
other-buffer-returned: coming; coming-of-many
  the buffer that was returned is not the one into which the sum came home: `here` has been sent,
  and is exchanged for `coming` after the last hop as after any other
wrong-direction
  sums go to the rank before. The keys go to the rank after, and a sum has to stay with its keys
nobody-sends-to-me
  sums go to the next rank and are expected from it too: receive from the previous one
nobody-receives-from-me
  sums come from the previous rank and are sent to it too: send to the next one
its-own-neighbour
  each rank sends to itself and receives from itself. Its neighbours are rank + 1 and rank - 1,
  modulo P
ring-open-at-the-end
  the next rank is rank + 1, even for the last one. After it comes rank 0
ring-open-at-the-ends
  the neighbours are rank - 1 and rank + 1, even at the ends. After the last rank comes rank 0
ring-open-at-rank-zero
  rank - 1 is -1 for rank 0, and % keeps the sign: add ranks before you divide
straight-home
  parts were sent straight to the owner of the keys. It would have to receive P - 1 of them and add,
  and here a sum goes from rank to rank
sent-to-itself
  with one rank the sum was sent to itself: right, and needless. It is at its owner already
nothing-for-one-rank
  with one rank nothing was added. It still has its own part
)");

// A sum has a number for each pair (keys of a rank, part of a rank), which is how many times it was
// added. So its content can be described in words.
static std::string in_words(std::span<const float> sum, int ranks) {
  std::string text;
  for (int owner = 0; owner < ranks; ++owner) {
    std::string parts;
    for (int rank = 0; rank < ranks; ++rank) {
      const float times = sum[owner * ranks + rank];
      if (std::isnan(times)) return "what has not come yet, or was never received";
      if (times == 0) continue;
      parts += (parts.empty() ? "" : ", ") + std::to_string(rank);
      if (times != 1) parts += " (" + exercise::text(times) + " times)";
    }
    if (!parts.empty())
      text += (text.empty() ? "" : "; ") + ("for the keys of rank " + std::to_string(owner)) +
              " the parts of ranks " + parts;
  }
  return text.empty() ? "nothing" : text;
}

// A part was added for `step`, after `messages` messages had been sent.
struct Added {
  int step, messages;
};

static std::string in_order(const std::vector<Added>& parts, const std::vector<int>& sent_to) {
  std::string text;
  const auto say = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  size_t next = 0;
  for (int messages = 0; messages <= static_cast<int>(sent_to.size()); ++messages) {
    for (; next < parts.size() && parts[next].messages <= messages; ++next) {
      say("part of step " + std::to_string(parts[next].step));
    }
    if (messages < static_cast<int>(sent_to.size())) {
      say("message to " + std::to_string(sent_to[messages]));
    }
  }
  return text.empty() ? "nothing" : text;
}

// Returns each rank's result, in words.
template <class Any>
static std::vector<std::string> run(const Any& way, int ranks) {
  const int size = ranks * ranks;
  std::vector<std::string> shown(ranks);
  std::vector<std::vector<Added>> logs(ranks);
  std::vector<std::vector<float>> memory(ranks, std::vector<float>(2 * size));
  exercise::run_watched(
      ranks,
      [&](WatchedTransport& transport) {
        const int rank = transport.rank();
        const std::span<float> both = memory[rank];
        std::fill_n(both.begin() + size, size, std::nanf(""));
        int parts = 0;
        std::vector<Added>& log = logs[rank];
        const auto add_part = [&](int step, std::span<float> sum) {
          if (++parts > 3 * ranks) {
            throw std::runtime_error("add_part() was called more than " +
                                     std::to_string(3 * ranks) + " times with " +
                                     std::to_string(ranks) + " ranks: the loop does not end");
          }
          log.push_back({step, transport.sends_started()});
          if (step < 0 || step >= ranks) {
            transport.note_fault("adds a part for step " + std::to_string(step) +
                                 ", which does not exist");
            return;
          }
          if (static_cast<int>(sum.size()) != size) {
            transport.note_fault("adds to a part of a buffer");
            return;
          }
          if (transport.is_sent(sum)) transport.note_fault("adds to a sum that is being sent");
          if (transport.is_received(sum))
            transport.note_fault("adds to a buffer into which a receive is under way");
          sum[(rank + ranks - step) % ranks * ranks + rank] += 1;
        };
        const std::span<float> sum =
            way.bring_home(transport, both.first(size), both.last(size), add_part);
        shown[rank] = static_cast<int>(sum.size()) == size ? in_words(sum, ranks) : "no buffer";
      },
      [&](const WatchedTransport& transport) {
        std::string& text = shown[transport.rank()];
        text = "  rank " + std::to_string(transport.rank()) + " returns " +
               (text.empty() ? "nothing, it never ends" : text) +
               "\n    what it did: " + in_order(logs[transport.rank()], transport.sent_to()) + "\n";
        for (const std::string& fault : transport.faults()) text += "    fault: " + fault + "\n";
      });
  return shown;
}

static void check_ranks(int ranks) {
  exercise::check_ranks<Way, Answer>(ranks, MISTAKES,
                                     [&](const auto& way) { return run(way, ranks); });
}

TEST_CASE("two ranks") { check_ranks(2); }
TEST_CASE("three ranks") { check_ranks(3); }
TEST_CASE("five ranks") { check_ranks(5); }
TEST_CASE("one rank") { check_ranks(1); }
