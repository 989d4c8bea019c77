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

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Starts { kBefore, kAfter, kReceiveLate, kSendLate } starts = kBefore;
  enum Waits {
    kAfterUse,
    kBeforeUse,
    kReceiveBeforeUse,
    kAfterNextUse,
    kAtEnd,
    kReceiveOnly,
    kSendOnly,
    kNever,
    kSendFirst,
    kReceiveFirst,
    kSendBeforeUse
  } waits = kAfterUse;
  enum Swap { kSwap, kNotSwapped, kCopied, kBeforeTheUse } swap = kSwap;
  enum Buffers { kTwo, kOne, kComingSent, kExchanged, kComingUsed, kOwnSent } buffers = kTwo;
  enum Ring {
    kForward,
    kBackward,
    kBothNext,
    kBothPrevious,
    kToItself,
    kFromItself,
    kItself,
    kOpen,
    kOpenBelow,
    kOpenAbove
  } ring = kForward;
  enum Calls { kBothCalls, kNoReceive, kNoSend } calls = kBothCalls;
  enum Steps {
    kAll,
    kTravelsAtLast,
    kOneLess,
    kOneMore,
    kTravelsOnce,
    kFromOne,
    kTwoLess,
    kNotFirst
  } steps = kAll;
  bool tags_differ = false, old_first = false;
  // As right either way; a mistake may show itself in other faults.
  bool send_first = false, send_waits_first = false;

  void use_all_keys(Transport& transport, std::span<float> here, std::span<float> coming,
                    const Use& use) const {
    const int rank = transport.rank(), ranks = transport.ranks();
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (ring == kBackward) std::swap(next, previous);
    if (ring == kBothNext) previous = next;
    if (ring == kBothPrevious) next = previous;
    if (ring == kToItself || ring == kItself) next = rank;
    if (ring == kFromItself || ring == kItself) previous = rank;
    if (ring == kOpenAbove) next = rank + 1;
    if (ring == kOpen) next = rank + 1, previous = rank - 1;
    if (ring == kOpenBelow) previous = (rank - 1) % ranks;
    std::vector<Request> old;
    const std::span<float> own = here;
    const int end = steps == kOneLess ? ranks - 1 : steps == kOneMore ? ranks + 1 : ranks;
    for (int step = steps == kFromOne ? 1 : 0; step < end; ++step) {
      Request received, sent;
      const bool travels = steps == kTravelsAtLast || steps == kFromOne ? true
                           : steps == kTravelsOnce                      ? step == 0 && ranks > 1
                           : steps == kTwoLess                          ? step < end - 2
                           : steps == kNotFirst                         ? step > 0
                                                                        : step < end - 1;
      const std::span<float> to_send = buffers == kComingSent || buffers == kExchanged ? coming
                                       : buffers == kOwnSent                           ? own
                                                                                       : here;
      const std::span<float> to_fill = buffers == kOne || buffers == kExchanged ? here : coming;
      const auto receive = [&] {
        if (travels && calls != kNoReceive)
          received = transport.receive(previous, Tag::keys, to_fill);
      };
      const auto send = [&] {
        if (travels && calls != kNoSend)
          sent = transport.send(next, tags_differ ? Tag::gradients : Tag::keys, to_send);
      };
      const auto start = [&] {
        if (waits == kSendFirst) {
          send();
          transport.wait(sent);
          receive();
        } else if (waits == kReceiveFirst) {
          receive();
          transport.wait(received);
          send();
        } else if (send_first) {
          send();
          receive();
        } else {
          receive();
          send();
        }
      };
      const auto wait = [&](bool for_received, bool for_sent) {
        if (send_waits_first && for_sent) transport.wait(sent);
        if (for_received) transport.wait(received);
        if (!send_waits_first && for_sent) transport.wait(sent);
      };
      if (starts == kBefore) start();
      if (starts == kSendLate) receive();
      if (starts == kReceiveLate) send();
      if (waits == kBeforeUse) wait(true, true);
      if (waits == kReceiveBeforeUse) wait(true, false);
      if (waits == kSendBeforeUse) wait(false, true);
      if (swap == kBeforeTheUse) std::swap(here, coming);
      use(buffers == kComingUsed && step > 0 ? coming : here);
      if (old_first) {
        for (const Request& one : old) transport.wait(one);
        old.clear();
      }
      if (starts == kAfter) start();
      if (starts == kReceiveLate) receive();
      if (starts == kSendLate) send();
      if (waits == kAfterNextUse) {
        for (const Request& one : old) transport.wait(one);
        old.clear();
      }
      if (waits == kAfterNextUse || waits == kAtEnd) {
        old.push_back(send_waits_first ? sent : received);
        old.push_back(send_waits_first ? received : sent);
      } else if (waits != kNever) {
        wait(waits != kSendOnly, waits != kReceiveOnly);
      }
      if (swap == kSwap) std::swap(here, coming);
      if (swap == kCopied && travels) std::copy(coming.begin(), coming.end(), here.begin());
    }
    for (const Request& one : old) transport.wait(one);
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  void use_all_keys(Transport& transport, std::span<float> here, std::span<float> coming,
                    const Use& use) const {
    ::use_all_keys(transport, here, coming, use);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const before =
      "both were waited for before use(), so nothing is under way while the rank computes: right, "
      "and no overlap";
  static const char* const after =
      "send and receive were started after use(), so nothing is under way while the rank computes: "
      "right, and no overlap";
  static const char* const send_first =
      "no receive had been started when the send was waited for: it comes later, or is missing; "
      "all ranks do that, so nobody receives: a deadlock";
  static const char* const receive_first =
      "no send had been started when the receive was waited for: it comes later, or is missing; "
      "all ranks do that, so nobody sends: a deadlock";
  static const char* const too_late =
      "the requests were waited for after the next use(), or behind the loop; the next use() needs "
      "the keys";
  static const char* const not_swapped =
      "the buffers were never exchanged, so the rank uses and sends its own keys at every step";
  static const char* const one_buffer =
      "keys were received into the buffer that is being used and sent; that is what the second one "
      "is for";
  static const char* const own_again =
      "the rank's own keys were sent again, or the buffer in which they were; hand on what came";
  static const char* const one_less =
      "use() is called once less than there are ranks, so the keys that come last are never used: "
      "P steps, and P - 1 hops";
  static const std::vector<Known> known = {
      {"waits-before-compute", {.waits = W::kBeforeUse}, before},
      {"starts-after-compute", {.starts = W::kAfter}, after},
      {"receive-waited-before-compute",
       {.waits = W::kReceiveBeforeUse},
       "the receive was waited for before use(); only the send is under way while the rank "
       "computes, and the time is the receive's"},
      {"send-waited-before-compute",
       {.waits = W::kSendBeforeUse},
       "the send was waited for before use(); it ends when the keys have gone, so that takes as "
       "long as the transfer"},
      {"receive-started-late",
       {.starts = W::kReceiveLate},
       "the receive was started after use(); until then a send may have nowhere to go: start both "
       "before"},
      {"send-started-late",
       {.starts = W::kSendLate},
       "the send was started after use(), on all ranks, so nothing arrives before: start both "
       "before"},
      {"waits-too-late", {.waits = W::kAfterNextUse}, too_late},
      {"waits-too-late", {.starts = W::kAfter, .waits = W::kAfterNextUse}, too_late},
      {"waits-too-late",
       {.starts = W::kAfter, .waits = W::kAfterNextUse, .old_first = true},
       too_late},
      {"waits-too-late", {.waits = W::kAtEnd}, too_late},
      {"waits-too-late", {.starts = W::kAfter, .waits = W::kAtEnd}, too_late},
      {"never-waits",
       {.waits = W::kNever},
       "nothing was waited for; until then what is received is not there"},
      {"send-not-waited-for",
       {.waits = W::kReceiveOnly},
       "only the receive was waited for; the buffer of the send is the one that the next receive "
       "writes"},
      {"receive-not-waited-for",
       {.waits = W::kSendOnly},
       "only the send was waited for; until the receive is, what comes is not there"},
      {"waits-for-the-send-first", {.waits = W::kSendFirst}, send_first},
      {"waits-for-the-send-first", {.starts = W::kAfter, .waits = W::kSendFirst}, send_first},
      {"waits-for-the-send-first", {.calls = W::kNoReceive}, send_first},
      {"waits-for-the-receive-first", {.calls = W::kNoSend}, receive_first},
      {"waits-for-the-receive-first", {.waits = W::kReceiveFirst}, receive_first},
      {"waits-for-the-receive-first",
       {.starts = W::kAfter, .waits = W::kReceiveFirst},
       receive_first},
      {"not-swapped", {.swap = W::kNotSwapped}, not_swapped},
      {"swapped-before-use",
       {.swap = W::kBeforeTheUse},
       "use() got the buffer into which keys are still coming: that is `coming`, or `here` if the "
       "buffers were exchanged before use()"},
      {"copied-for-swapped",
       {.swap = W::kCopied},
       "the keys that came were copied into `here`: right, and every key is written once more; "
       "swap the spans"},
      {"one-buffer", {.buffers = W::kOne}, one_buffer},
      {"one-buffer", {.swap = W::kNotSwapped, .buffers = W::kOne}, one_buffer},
      {"the-coming-are-sent",
       {.buffers = W::kComingSent},
       "what is sent is the buffer into which keys are coming; send `here`"},
      {"here-and-coming-exchanged",
       {.buffers = W::kExchanged},
       "the buffer that is used is received into, and the other one is sent: the other way round"},
      {"own-keys-sent-again", {.swap = W::kNotSwapped, .buffers = W::kComingUsed}, own_again},
      {"own-keys-sent-again", {.buffers = W::kOwnSent}, own_again},
      {"wrong-direction",
       {.ring = W::kBackward},
       "keys go to the rank before and come from the rank after; the other way round"},
      {"nobody-sends-to-me",
       {.ring = W::kBothNext},
       "keys go to the next rank and are expected from it too; it expects them from its own next: "
       "receive from the previous one"},
      {"nobody-receives-from-me",
       {.ring = W::kBothPrevious},
       "keys come from the previous rank and are sent to it too: send to the next one"},
      {"ring-open-at-the-ends",
       {.ring = W::kOpen},
       "the neighbours are rank - 1 and rank + 1, also at the ends; after the last rank comes rank "
       "0"},
      {"ring-open-at-rank-zero",
       {.ring = W::kOpenBelow},
       "rank - 1 is -1 for rank 0, and % keeps the sign: add ranks before you divide"},
      {"one-hop-too-many",
       {.steps = W::kTravelsAtLast},
       "keys travel at the last step too, and nobody uses them"},
      {"last-keys-not-used", {.steps = W::kOneLess}, one_less},
      {"last-keys-not-used", {.steps = W::kFromOne}, one_less},
      {"own-block-twice",
       {.steps = W::kOneMore},
       "there are ranks + 1 steps, so the rank's own keys come back and are used twice"},
      {"one-hop-too-few",
       {.steps = W::kTwoLess},
       "nothing travelled at the last step but one, and the last step needs keys as well: P - 1 "
       "hops"},
      {"first-hop-left-out",
       {.steps = W::kNotFirst},
       "nothing travelled at step 0, and something at the last step; at every step but the last"},
      {"sent-to-itself",
       {.ring = W::kToItself},
       "each rank sends to itself; its keys go to the next rank, (rank + 1) % P"},
      {"received-from-itself",
       {.ring = W::kFromItself},
       "each rank receives from itself; keys come from the rank before, (rank + P - 1) % P"},
      {"its-own-neighbour",
       {.ring = W::kItself},
       "each rank sends to itself and receives from itself; its neighbours are rank + 1 and rank - "
       "1, modulo P"},
      {"ring-open-at-the-end",
       {.ring = W::kOpenAbove},
       "the next rank is rank + 1, also for the last one; after it comes rank 0"},
      {"tags-differ",
       {.tags_differ = true},
       "send and receive have different tags, so nobody receives what is sent: Tag::keys"},
      {"one-hop-only",
       {.steps = W::kTravelsOnce},
       "keys travelled at step 0 only; at every step but the last"},
  };
  return known;
}

constexpr int KEYS = 4;  // numbers of a rank; all have its number as their value

// What each rank did, in words.
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
  exercise::check_ranks<Way>(ranks, run(Answer{}, ranks), all_known(),
                             [](const Way& way, int count) { return run(way, count); });
}

TEST_CASE("two ranks") { check_ranks(2); }
TEST_CASE("three ranks") { check_ranks(3); }
TEST_CASE("five ranks") { check_ranks(5); }
TEST_CASE("one rank") { check_ranks(1); }
