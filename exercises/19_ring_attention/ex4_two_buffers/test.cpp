#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <two_buffers.hpp>
#include <vector>

#include "exercises/support/ring.hpp"
#include "exercises/support/verdict.hpp"

using exercise::WatchedTransport;
using Use = std::function<void(std::span<const float>)>;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  void use_all_keys(Transport& transport, std::span<float> here, std::span<float> coming,
                    const Use& use) const {
    const int rank = transport.rank(), ranks = transport.ranks();
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (is("wrong-direction")) std::swap(next, previous);
    if (is("nobody-sends-to-me")) previous = next;
    if (is("nobody-receives-from-me")) next = previous;
    if (is("sent-to-itself") || is("its-own-neighbour")) next = rank;
    if (is("received-from-itself") || is("its-own-neighbour")) previous = rank;
    if (is("ring-open-at-the-end")) next = rank + 1;
    if (is("ring-open-at-the-ends")) next = rank + 1, previous = rank - 1;
    if (is("ring-open-at-rank-zero")) previous = (rank - 1) % ranks;
    std::vector<Request> old;
    const std::span<float> own = here;
    const int end = is("one-less") ? ranks - 1 : is("own-block-twice") ? ranks + 1 : ranks;
    for (int step = is("from-one") ? 1 : 0; step < end; ++step) {
      Request received, sent;
      const bool travels = is("one-hop-too-many") || is("from-one") ? true
                           : is("one-hop-only")                     ? step == 0 && ranks > 1
                           : is("one-hop-too-few")                  ? step < end - 2
                           : is("first-hop-left-out")               ? step > 0
                                                                    : step < end - 1;
      const std::span<float> to_send = is("the-coming-are-sent") || is("here-and-coming-exchanged")
                                           ? coming
                                       : is("own-sent") ? own
                                                        : here;
      const std::span<float> to_fill = is("one") || is("here-and-coming-exchanged") ? here : coming;
      const auto receive = [&] {
        if (travels && !is("no-receive"))
          received = transport.receive(previous, Tag::keys, to_fill);
      };
      const auto send = [&] {
        if (travels && !is("no-send"))
          sent = transport.send(next, is("tags-differ") ? Tag::gradients : Tag::keys, to_send);
      };
      const auto start = [&] {
        const bool send_first =
            is("waits-send-first") || (is("send-first") && !is("receive-first"));
        if (send_first) send();
        if (is("waits-send-first")) transport.wait(sent);
        receive();
        if (is("receive-first")) transport.wait(received);
        if (!send_first) send();
      };
      const auto wait = [&](bool for_received, bool for_sent) {
        if (is("send-waits-first") && for_sent) transport.wait(sent);
        if (for_received) transport.wait(received);
        if (!is("send-waits-first") && for_sent) transport.wait(sent);
      };
      if (!is.any("starts-after-compute", "receive-started-late", "send-started-late")) start();
      if (is("send-started-late")) receive();
      if (is("receive-started-late")) send();
      if (is("waits-before-compute")) wait(true, true);
      if (is("receive-waited-before-compute")) wait(true, false);
      if (is("send-waited-before-compute")) wait(false, true);
      if (is("swapped-before-use")) std::swap(here, coming);
      use(is("coming-used") && step > 0 ? coming : here);
      if (is("old-first")) {
        for (const Request& one : old) transport.wait(one);
        old.clear();
      }
      if (is("starts-after-compute")) start();
      if (is("receive-started-late")) receive();
      if (is("send-started-late")) send();
      if (is("after-next-use")) {
        for (const Request& one : old) transport.wait(one);
        old.clear();
      }
      if (is("after-next-use") || is("at-end")) {
        old.push_back(is("send-waits-first") ? sent : received);
        old.push_back(is("send-waits-first") ? received : sent);
      } else if (!is("never-waits")) {
        wait(!is("receive-not-waited-for"), !is("send-not-waited-for"));
      }
      if (!is.any("not-swapped", "copied-for-swapped", "swapped-before-use"))
        std::swap(here, coming);
      if (is("copied-for-swapped") && travels)
        std::copy(coming.begin(), coming.end(), here.begin());
    }
    for (const Request& one : old) transport.wait(one);
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  void use_all_keys(Transport& transport, std::span<float> here, std::span<float> coming,
                    const Use& use) const {
    ::use_all_keys(transport, here, coming, use);
  }
};

static const exercise::Table MISTAKES(R"(
waits-before-compute
  both were waited for before use(), so nothing is under way while the rank computes: right, and
  no overlap
starts-after-compute
  send and receive were started after use(), so nothing is under way while the rank computes:
  right, and no overlap
receive-waited-before-compute
  the receive was waited for before use(). Only the send is under way while the rank computes, and
  the time is the receive's
send-waited-before-compute
  the send was waited for before use(). It ends when the keys have gone, so that takes as long as
  the transfer
receive-started-late
  the receive was started after use(). Until then a send may have nowhere to go: start both before
send-started-late
  the send was started after use(), on all ranks, so nothing arrives before: start both before
waits-too-late: after-next-use; starts-after-compute after-next-use; starts-after-compute
    after-next-use old-first; at-end; starts-after-compute at-end
  the requests were waited for after the next use(), or after the loop. The next use() needs the
  keys
never-waits
  nothing was waited for. Until then what is received is not there
send-not-waited-for
  only the receive was waited for. The buffer of the send is the one that the next receive writes
receive-not-waited-for
  only the send was waited for. The received keys are not there until the receive is waited for
waits-for-the-send-first: waits-send-first; starts-after-compute waits-send-first; no-receive
  no receive had been started when the send was waited for: it comes later, or is missing. All ranks
  do that, so that no rank receives: a deadlock
waits-for-the-receive-first: no-send; receive-first; starts-after-compute receive-first
  no send had been started when the receive was waited for: it comes later, or is missing. All ranks
  do that, so that no rank sends: a deadlock
not-swapped
  the buffers were never exchanged, so the rank uses and sends its own keys at every step
swapped-before-use
  use() got the buffer into which keys are still coming: that is `coming`, or `here` if the
  buffers were exchanged before use()
copied-for-swapped
  the keys that came were copied into `here`: right, and every key is written once more. Swap the
  spans
one-buffer: one; not-swapped one
  keys were received into the buffer that is used and sent at the same time. Use the second buffer
the-coming-are-sent
  what is sent is the buffer into which keys are coming. Send `here`
here-and-coming-exchanged
  the buffer that is used is received into, and the other one is sent: the other way round
own-keys-sent-again: not-swapped coming-used; own-sent
  the rank's own keys were sent again, or the buffer in which they were. Hand on what came
wrong-direction
  keys go to the rank before and come from the rank after. The other way round
nobody-sends-to-me
  keys go to the next rank and are expected from it too. It expects them from its own next: receive
  from the previous one
nobody-receives-from-me
  keys come from the previous rank and are sent to it too: send to the next one
ring-open-at-the-ends
  the neighbours are rank - 1 and rank + 1, even at the ends. After the last rank comes rank 0
ring-open-at-rank-zero
  rank - 1 is -1 for rank 0, and % keeps the sign: add ranks before you divide
one-hop-too-many
  keys travel at the last step, too, and no rank uses them
last-keys-not-used: one-less; from-one
  use() is called once less than there are ranks, so the keys that come last are never used: P
  steps, and P - 1 hops
own-block-twice
  there are ranks + 1 steps, so the rank's own keys come back and are used twice
one-hop-too-few
  nothing travelled at the last step but one, and the last step needs keys as well: P - 1 hops
first-hop-left-out
  nothing travelled at step 0, and something at the last step. At every step but the last
sent-to-itself
  each rank sends to itself. Its keys go to the next rank, (rank + 1) % P
received-from-itself
  each rank receives from itself. Keys come from the rank before, (rank + P - 1) % P
its-own-neighbour
  each rank sends to itself and receives from itself. Its neighbours are rank + 1 and rank - 1,
  modulo P
ring-open-at-the-end
  the next rank is rank + 1, even for the last one. After it comes rank 0
tags-differ
  send and receive have different tags, so that the message is never received: use Tag::keys
one-hop-only
  keys travelled at step 0 only. At every step but the last
)");

constexpr int KEYS = 4;  // numbers of a rank, all of which have its number as their value

// Returns each rank's actions, in words.
template <class Any>
static std::vector<std::string> run(const Any& way, int ranks) {
  std::vector<std::string> shown(ranks);
  std::vector<std::vector<float>> memory(ranks, std::vector<float>(2 * KEYS, -1));
  exercise::run_watched(
      ranks,
      [&](WatchedTransport& transport) {
        const int rank = transport.rank();
        const std::span<float> both = memory[rank];
        std::fill_n(both.begin(), KEYS, static_cast<float>(rank));
        int uses = 0;
        const auto use = [&](std::span<const float> keys) {
          const bool empty = keys.size() != KEYS;
          const float owner = empty ? -1 : keys[0];
          const bool known =
              owner >= 0 && owner < static_cast<float>(ranks) &&
              std::all_of(keys.begin(), keys.end(), [&](float key) { return key == owner; });
          const auto state = [&](int under_way, int started) -> std::string {
            return under_way > 0 ? "under way" : started > uses ? "over" : "not started";
          };
          shown[rank] += "    use " + std::to_string(uses) + ": " +
                         (known ? "keys of rank " + std::to_string(static_cast<int>(owner))
                                : "no rank's keys") +
                         (keys.data() == both.data()          ? ", 1st buffer"
                          : keys.data() == both.data() + KEYS ? ", 2nd buffer"
                                                              : ", other memory") +
                         "; send " + state(transport.sends_under_way(), transport.sends_started()) +
                         ", receive " +
                         state(transport.receives_under_way(), transport.receives_started()) + "\n";
          if (transport.is_received(keys))
            transport.note_fault("use " + std::to_string(uses) +
                                 " reads a buffer into which a receive is under way");
          ++uses;
          if (uses > 2 * ranks) {
            throw std::runtime_error("use() was called more than " + std::to_string(2 * ranks) +
                                     " times with " + std::to_string(ranks) +
                                     " ranks: the loop does not end");
          }
        };
        way.use_all_keys(transport, both.first(KEYS), both.last(KEYS), use);
      },
      [&](const WatchedTransport& transport) {
        std::string& text = shown[transport.rank()];
        text = "  rank " + std::to_string(transport.rank()) + "\n" + text +
               "    messages sent: " + std::to_string(transport.sends_started()) + "\n";
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
