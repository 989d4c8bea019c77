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

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Adds {
    kBefore,
    kAfterArrival,
    kWhileSent,
    kFromStepOne,
    kNotLast,
    kAgainAtHome,
    kCleared,
    kOneStepOn,
    kOneStepBack,
    kOwnStep,
    kOwner,
    kToComing,
    kFirstOnly,
    kToComingAlways,
    kRankMinusStep,
    kCountedDown,
    kRank,
    kMean
  } adds = kBefore;
  enum Hops {
    kAllHome,
    kLastForgotten,
    kOneMore,
    kOneStepMore,
    kOneStepLess,
    kFromOne,
    kNone,
    kOneOnly,
    kStraightHome
  } hops = kAllHome;
  enum Waits {
    kBoth,
    kReceiveOnly,
    kSendOnly,
    kNever,
    kSendFirst,
    kReceiveFirst,
    kAtEnd
  } waits = kBoth;
  enum Swap { kSwap, kNotSwapped } swap = kSwap;
  enum Returns { kHere, kComing, kComingOfMany } returns = kHere;
  enum Ring {
    kForward,
    kBackward,
    kBothNext,
    kBothPrevious,
    kItself,
    kOpen,
    kOpenBelow,
    kOpenAbove
  } ring = kForward;
  enum Calls { kAll, kNoReceive, kNoSend } calls = kAll;
  enum Alone { kNothingSent, kToItself, kNothingAdded } alone = kNothingSent;
  // As right either way; a mistake may show itself in other faults.
  bool send_first = false, send_waits_first = false;

  std::span<float> bring_home(Transport& transport, std::span<float> here, std::span<float> coming,
                              const AddPart& add_part) const {
    const int rank = transport.rank(), ranks = transport.ranks();
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (ring == kBackward) std::swap(next, previous);
    if (ring == kBothNext) previous = next;
    if (ring == kBothPrevious) next = previous;
    if (ring == kItself) next = previous = rank;
    if (ring == kOpenAbove) next = rank + 1;
    if (ring == kOpen) next = rank + 1, previous = rank - 1;
    if (ring == kOpenBelow) previous = (rank - 1) % ranks;
    std::vector<Request> old;
    if (ranks == 1 && alone == kNothingAdded) return here;
    const int end = hops == kOneStepMore && ranks > 1   ? ranks + 1
                    : hops == kOneStepLess && ranks > 1 ? ranks - 1
                                                        : ranks;
    for (int step = hops == kFromOne ? 1 : 0; step < end; ++step) {
      const int which = adds == kOneStepOn       ? (step + 1) % ranks
                        : adds == kOneStepBack   ? (step + ranks - 1) % ranks
                        : adds == kOwnStep       ? 0
                        : adds == kRankMinusStep ? rank - step
                        : adds == kCountedDown   ? (ranks - step) % ranks
                        : adds == kRank          ? rank
                        : adds == kOwner         ? (rank + ranks - step) % ranks
                                                 : step;
      if (adds == kCleared) std::fill(here.begin(), here.end(), 0.0f);
      const bool left_out = (adds == kFromStepOne && step == 0) ||
                            (adds == kNotLast && ranks > 1 && step == ranks - 1) ||
                            (adds == kFirstOnly && step > 0) || adds == kWhileSent ||
                            (adds == kAfterArrival && ranks > 1);
      if (!left_out)
        add_part(which, adds == kToComingAlways || (adds == kToComing && step > 0) ? coming : here);
      const bool travels = hops == kNone            ? false
                           : hops == kLastForgotten ? step < ranks - 1
                           : hops == kOneOnly       ? step == ranks - 1
                                                    : true;
      if ((ranks > 1 || alone == kToItself) && travels) {
        Request received, sent;
        const int to = hops == kStraightHome && step > 0 ? (rank + ranks - step) % ranks : next;
        const int from = hops == kStraightHome && step > 0 ? (rank + step) % ranks : previous;
        const auto send = [&] {
          if (calls != kNoSend) sent = transport.send(to, Tag::gradients, here);
        };
        const auto receive = [&] {
          if (calls != kNoReceive) received = transport.receive(from, Tag::gradients, coming);
        };
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
        if (adds == kWhileSent) add_part(which, here);
        if (waits == kAtEnd) {
          old.push_back(send_waits_first ? sent : received);
          old.push_back(send_waits_first ? received : sent);
        } else if (waits != kNever) {
          if (send_waits_first && waits != kReceiveOnly) transport.wait(sent);
          if (waits != kSendOnly) transport.wait(received);
          if (!send_waits_first && waits != kReceiveOnly) transport.wait(sent);
        }
      } else if (adds == kWhileSent) {
        add_part(which, here);
      }
      if (swap == kSwap && travels && ranks > 1) std::swap(here, coming);
      if (adds == kAfterArrival && ranks > 1) add_part(which, here);
    }
    if (hops == kOneMore && ranks > 1) {
      const Request received = transport.receive(previous, Tag::gradients, coming);
      transport.wait(transport.send(next, Tag::gradients, here));
      transport.wait(received);
      std::swap(here, coming);
    }
    for (const Request& one : old) transport.wait(one);
    if (adds == kAgainAtHome) add_part(0, here);
    if (adds == kMean)
      for (float& number : here) number /= static_cast<float>(ranks);
    return returns == kComing || (returns == kComingOfMany && ranks > 1) ? coming : here;
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  std::span<float> bring_home(Transport& transport, std::span<float> here, std::span<float> coming,
                              const AddPart& add_part) const {
    return ::bring_home(transport, here, coming, add_part);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const not_swapped =
      "the buffers were never exchanged: the rank adds all its parts to one sum, and sends that; "
      "hand on what came";
  static const char* const not_home =
      "nothing travelled: the rank's parts for all keys are in one sum; each belongs to the rank "
      "whose keys they are";
  static const char* const never_waits =
      "nothing was waited for, or only behind the loop; until then what is received is not there";
  static const char* const first_only =
      "each sum has one part, its owner's: behind step 0 nothing was added, or to `coming`, which "
      "the next receive overwrites";
  static const char* const behind =
      "each part is in the sum of the next step, which is for other keys: it was added after "
      "handing on, or is that of step - 1; add first, then hand on";
  static const char* const owner =
      "add_part was given the owner of the keys, rank - step; it takes the step";
  static const char* const too_many =
      "P + 1 hops; P bring the sum home, and one more takes it on to the rank after";
  static const char* const other_buffer =
      "the buffer that was returned is not the one into which the sum came home: `here` has been "
      "sent, and is exchanged for `coming` after the last hop as after any other";
  static const char* const left_out =
      "at step 0 nothing was added; the rank's own queries see its own keys too";
  static const std::vector<Known> known = {
      {"last-hop-forgotten",
       {.hops = W::kLastForgotten},
       "after the last step the sum is one hop from home: the rank returns the sum for the keys of "
       "the rank after it"},
      {"last-step-forgotten",
       {.hops = W::kOneStepLess},
       "P - 1 steps: the last rank adds nothing, and the sum is one hop from home; P of them"},
      {"one-hop-too-many", {.hops = W::kOneMore}, too_many},
      {"one-hop-too-many", {.hops = W::kOneStepMore}, too_many},
      {"never-travels", {.hops = W::kNone}, not_home},
      {"never-travels", {.hops = W::kNone, .waits = W::kNever}, not_home},
      {"travels-once",
       {.hops = W::kOneOnly},
       "all parts were added to one sum, and that was sent at the end; a sum has one hop after "
       "each step"},
      {"own-part-twice",
       {.adds = W::kAgainAtHome},
       "the rank's own part was added again when the sum came home; it was the first one in it"},
      {"own-part-left-out", {.adds = W::kFromStepOne}, left_out},
      {"own-part-left-out", {.hops = W::kFromOne}, left_out},
      {"last-part-left-out",
       {.adds = W::kNotLast},
       "at the last step nothing was added; that rank's queries see these keys too"},
      {"only-own-parts", {.adds = W::kFirstOnly}, first_only},
      {"only-own-parts", {.adds = W::kToComing}, first_only},
      {"one-step-behind", {.adds = W::kAfterArrival}, behind},
      {"one-step-behind", {.adds = W::kOneStepBack}, behind},
      {"added-while-sent",
       {.adds = W::kWhileSent},
       "the part was added while the sum was being sent; what is in flight may not change, and may "
       "or may not arrive"},
      {"sum-cleared",
       {.adds = W::kCleared},
       "the sum was set to 0 at every step, so what the ranks before have added is lost; only at "
       "step 0 it is 0"},
      {"one-step-ahead",
       {.adds = W::kOneStepOn},
       "the part is that of the next step, for other keys than the sum is for"},
      {"own-part-at-every-step",
       {.adds = W::kOwnStep},
       "the part for the rank's own keys was added at every step, also to the sums of others"},
      {"owner-for-step", {.adds = W::kOwner}, owner},
      {"owner-for-step", {.adds = W::kRankMinusStep}, owner},
      {"steps-counted-down",
       {.adds = W::kCountedDown},
       "add_part was given the steps 0, P - 1, P - 2, ...; they count up: at step s the sum is for "
       "the keys of rank - s"},
      {"rank-for-step", {.adds = W::kRank}, "add_part was given the rank; it takes the step"},
      {"added-to-the-other-buffer",
       {.adds = W::kToComingAlways},
       "parts were added to `coming`, which the receive overwrites: to `here`, which is sent"},
      {"averaged",
       {.adds = W::kMean},
       "the sum was divided by the number of ranks; the parts belong to different queries, so they "
       "add up"},
      {"send-not-waited-for",
       {.waits = W::kReceiveOnly},
       "only the receive was waited for; the buffer of the send is the one that the next receive "
       "writes"},
      {"receive-not-waited-for",
       {.waits = W::kSendOnly},
       "only the send was waited for; until the receive is, what comes is not there"},
      {"waits-too-late", {.waits = W::kNever}, never_waits},
      {"waits-too-late", {.waits = W::kAtEnd}, never_waits},
      {"waits-for-the-send-first",
       {.waits = W::kSendFirst},
       "no receive had been started when the send was waited for: it comes later, or is missing; "
       "all ranks do that, so nobody receives: a deadlock"},
      {"waits-for-the-send-first",
       {.calls = W::kNoReceive},
       "no receive had been started when the send was waited for: it comes later, or is missing; "
       "all ranks do that, so nobody receives: a deadlock"},
      {"waits-for-the-receive-first",
       {.waits = W::kReceiveFirst},
       "no send had been started when the receive was waited for: it comes later, or is missing; "
       "all ranks do that, so nobody sends: a deadlock"},
      {"waits-for-the-receive-first",
       {.calls = W::kNoSend},
       "no send had been started when the receive was waited for: it comes later, or is missing; "
       "all ranks do that, so nobody sends: a deadlock"},
      {"not-swapped", {.swap = W::kNotSwapped}, not_swapped},
      {"not-swapped", {.swap = W::kNotSwapped, .returns = W::kComing}, not_swapped},
      {"other-buffer-returned", {.returns = W::kComing}, other_buffer},
      {"other-buffer-returned", {.returns = W::kComingOfMany}, other_buffer},
      {"wrong-direction",
       {.ring = W::kBackward},
       "sums go to the rank before; the keys go to the rank after, and a sum has to stay with its "
       "keys"},
      {"nobody-sends-to-me",
       {.ring = W::kBothNext},
       "sums go to the next rank and are expected from it too: receive from the previous one"},
      {"nobody-receives-from-me",
       {.ring = W::kBothPrevious},
       "sums come from the previous rank and are sent to it too: send to the next one"},
      {"its-own-neighbour",
       {.ring = W::kItself},
       "each rank sends to itself and receives from itself; its neighbours are rank + 1 and rank - "
       "1, modulo P"},
      {"ring-open-at-the-end",
       {.ring = W::kOpenAbove},
       "the next rank is rank + 1, also for the last one; after it comes rank 0"},
      {"ring-open-at-the-ends",
       {.ring = W::kOpen},
       "the neighbours are rank - 1 and rank + 1, also at the ends; after the last rank comes rank "
       "0"},
      {"ring-open-at-rank-zero",
       {.ring = W::kOpenBelow},
       "rank - 1 is -1 for rank 0, and % keeps the sign: add ranks before you divide"},
      {"straight-home",
       {.hops = W::kStraightHome},
       "parts were sent straight to the owner of the keys; it would have to receive P - 1 of them "
       "and add, and here a sum goes from rank to rank"},
      {"sent-to-itself",
       {.alone = W::kToItself},
       "with one rank the sum was sent to itself: right, and needless; it is at home"},
      {"nothing-for-one-rank",
       {.alone = W::kNothingAdded},
       "with one rank nothing was added; it still has its own part"},
  };
  return known;
}

// A sum has a number for each pair (keys of a rank, part of a rank): how often it was added. So
// what is in it can be said in words.
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

// A part was added for this step, after so many messages had been sent.
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

// What each rank returned, in words.
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
  exercise::check_ranks<Way>(ranks, run(Answer{}, ranks), all_known(),
                             [](const Way& way, int count) { return run(way, count); });
}

TEST_CASE("two ranks") { check_ranks(2); }
TEST_CASE("three ranks") { check_ranks(3); }
TEST_CASE("five ranks") { check_ranks(5); }
TEST_CASE("one rank") { check_ranks(1); }
