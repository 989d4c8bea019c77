#include <doctest/doctest.h>

#include <register_budget.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;

constexpr int REGISTERS = 65536, MOST = 256, LEAST = 24, MOST_CONSUMERS = 7;

static int down(int x) { return x / 8 * 8; }
static int up(int x) { return (x + 7) / 8 * 8; }

// The right functions, and each mistake as a change to them. Each function may be right although
// another one makes the mistake.
struct Way {
  exercise::Changes is;

  int launched(int c, bool right) const {
    if (right) return down(REGISTERS / (128 * (1 + c)));
    const int threads = is("of-consumers")  ? 128 * c
                        : is("of-one-warp") ? 128 * c + 32
                                            : 128 * (1 + c);
    const int all = REGISTERS / threads;
    return is("not-rounded") ? all : is("rounded-up") ? up(all) : down(all);
  }
  int at_launch(int c) const {
    const int has = launched(c, is("launch-right"));
    return is("launch-at-most-256")   ? std::min(MOST, has)
           : is("launch-at-most-255") ? std::min(255, has)
                                      : has;
  }
  int keeps(int needs) const {
    return is("keeps-0")              ? 0
           : is("keeps-24")           ? LEAST
           : is("producer-below-24")  ? up(needs)
           : is("needs-rounded-down") ? std::max(LEAST, down(needs))
                                      : std::max(LEAST, up(needs));
  }
  int claimed(int c, int needs) const {
    const int has = launched(c, false), kept = keeps(needs);
    const int all = is("of-consumers-only")   ? c * has
                    : is("whole-file-shared") ? REGISTERS / 128
                                              : (1 + c) * has;
    const int share = (all - kept) / c;
    return is("claims-launch")               ? has
           : is("more-than-256")             ? down(share)
           : is("given-to-each")             ? std::min(MOST, 2 * has - kept)
           : is("shared-with-the-producer")  ? std::min(MOST, has + down((has - kept) / (1 + c)))
           : is("claim-not-a-multiple-of-8") ? std::min(MOST, share)
           : is("claim-up-from-up")          ? std::min(MOST, up((all - kept + c - 1) / c))
           : is("claim-up")                  ? std::min(MOST, up(share))
                                             : std::min(MOST, down(share));
  }
  int claim(int c, int needs) const {
    const int claims = is("claim-right") ? Way{}.claimed(c, needs) : claimed(c, needs);
    return is("claim-at-most-255") ? std::min(255, claims) : claims;
  }
  // The largest number of consumers for which both have enough, that is, the producer at launch,
  // each consumer when it has claimed.
  int most_consumers(int needs, int producer_needs) const {
    if (is("divides")) return (REGISTERS / 128 - keeps(producer_needs)) / needs;
    if (is("divides-rounded")) return (REGISTERS - 128 * keeps(producer_needs)) / (128 * up(needs));
    if (is("divides-at-most-7"))
      return std::min(MOST_CONSUMERS, (REGISTERS / 128 - keeps(producer_needs)) / up(needs));
    int most = 0, least = 0;
    for (int c = 1; c <= is.integer("up-to", MOST_CONSUMERS); ++c) {
      int has = launched(c, !is("most-by-launch"));
      if (is("most-by-capped-launch")) has = std::min(MOST, launched(c, false));
      const int claims = is("most-right")         ? Way{}.claimed(c, producer_needs)
                         : is("most-from-launch") ? launched(c, true)
                         : is("claim-at-most-255") || is("most-at-most-255")
                             ? std::min(255, claimed(c, producer_needs))
                             : claimed(c, producer_needs);
      if (!is("producer-not-asked") && producer_needs > has - is("producer-less")) continue;
      if (needs > claims - is("consumer-less")) continue;
      most = c;
      if (least == 0) least = c;
    }
    return is("first-that-fits")   ? least
           : is("one-more")        ? most + 1
           : is("one-more-if-any") ? most + (most > 0)
                                   : most;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int at_launch(int consumers) const { return ::at_launch(consumers); }
  int claim(int consumers, int needs) const { return ::claim(consumers, needs); }
  int most_consumers(int needs, int producer) const { return ::most_consumers(needs, producer); }
};

static const exercise::Table MISTAKES(R"(
$two = {,claim-right,most-right}
$launch = {launch-right,,launch-at-most-256} {,most-by-launch,most-by-capped-launch,most-right,claim-right,claim-right most-by-launch,claim-right most-by-capped-launch}
$rounding = {,most-by-launch,most-right,claim-right,claim-right most-by-launch,claim-right most-right,launch-right most-by-launch,launch-right claim-right most-by-launch}
producer-forgotten-at-launch: of-consumers {claims-launch,,of-consumers-only} $launch;
    of-consumers {,launch-at-most-256} claim-right most-right
  the 65536 were divided among the consumers' threads. At launch the producer's 128 have as many
  each
producer-of-one-warp: of-one-warp $launch;
    of-one-warp {,launch-at-most-256} claim-right most-right
  the producer was taken for one warp. It is a warpgroup of four
whole-file-shared: whole-file-shared $two
  the claim divides all 65536 registers. Only registers that the launch has given out can be
  claimed. Those lost to its rounding cannot
launch-not-rounded: not-rounded $rounding
  at launch each thread gets a multiple of 8, and the registers lost to rounding stay unused
launch-rounded-up: rounded-up $rounding; rounded-up launch-right {,claim-right,most-right}
  what each thread has at launch was rounded up, and all together would have more than 65536
more-than-256: more-than-256 $two
  the share of a single consumer is more than 256, and no thread can have more
producer-keeps-nothing: keeps-0 $two
  the consumers got the producer's registers too. But the producer keeps what it needs, 24 or more
producer-keeps-24-always: keeps-24 $two
  the producer kept 24, whatever it needs
producer-below-24: producer-below-24 $two
  the producer kept less than 24, and setmaxnreg takes 24 to 256: with 8 it needs 24
needs-rounded-down: needs-rounded-down $two
  what the producer keeps was rounded down, and is less than it needs: with 33 it needs 40
claim-not-a-multiple-of-8: claim-not-a-multiple-of-8 $two
  the claim is no multiple of 8. setmaxnreg takes no other
claim-rounded-up: {claim-up,claim-up-from-up} $two
  the claim was rounded up, and all consumers together claim more than there is
given-to-each: given-to-each $two
  each consumer got all that the producer gave up. They share it
shared-with-the-producer: shared-with-the-producer $two
  what the producer gives up was shared among all warpgroups, itself too
fits-at-launch: most-from-launch {,producer-not-asked}
  the need was compared with what a thread has at launch. setmaxnreg gives a consumer more
nothing-given-up: claims-launch {,most-right}
  each consumer kept what it had at launch. The producer gives up what it does not need
capped-at-255: {,launch-at-most-255} {claim-at-most-255,claim-at-most-255 most-right,most-at-most-255};
    launch-at-most-255
  the 256 were capped at 255, the most that an instruction can name. Launches and claims use multiples
  of 8, up to 256
producer-not-asked
  the consumers have what they need, but the producer does not: it cannot need more than a thread has
  at launch, and with more consumers that is less
producer-counted-as-a-consumer: one-more; one-more-if-any
  this is the number of warpgroups. One of them is the producer
needs-all-but-one: producer-less; consumer-less; producer-less consumer-less
  a need that is just met fits, too: <= and not <
first-that-fits
  this is the smallest number of consumers that fits. The largest is needed
other-than-seven: up-to={2,3,4,6,8}
  try 1 to 7 consumers: a block has at most 1024 threads, and 128 of them are the producer's
one-division: divides; divides-rounded; divides-at-most-7
  the number of consumers is not a quotient, because the launch and each claim round the registers
)");

const int kProducerNeeds[] = {8, 24, 33, 56};
const int kMuchForProducer[] = {72, 97};  // with seven consumers a thread has 64 at launch
const int kConsumerNeeds[] = {40,  64,  72,  80,  81,  88,  100, 112, 113,
                              150, 160, 161, 232, 240, 241, 256, 257};

template <class Functions>
static exercise::Numbers launches(const Functions& f) {
  exercise::Numbers all;
  for (int c = 1; c <= MOST_CONSUMERS; ++c) all.push_back(f.at_launch(c));
  return all;
}
template <class Functions>
static exercise::Numbers claims(const Functions& f, int producer_needs) {
  exercise::Numbers all;
  for (int c = 1; c <= MOST_CONSUMERS; ++c) all.push_back(f.claim(c, producer_needs));
  return all;
}
template <class Functions>
static exercise::Numbers fitting(const Functions& f, int producer_needs) {
  exercise::Numbers all;
  for (const int needs : kConsumerNeeds) all.push_back(f.most_consumers(needs, producer_needs));
  return all;
}

// Runs a block whose producer keeps, and whose consumers claim, these registers, and returns its
// hazards.
static std::string claim_all(int consumers, int keeps, int claims) {
  for (const int registers : {keeps, claims})
    if (registers < LEAST || registers > MOST || registers % 8 != 0)
      return "setmaxnreg does not take " + std::to_string(registers) +
             ": a multiple of 8, 24 to 256\n";
  const int has = Way{}.at_launch(consumers);
  if (claims < has)
    return "setmaxnreg_inc to less than the thread has, " + std::to_string(has) + "\n";
  return exercise::hazards(exercise::run_block(128 * (1 + consumers), 0, [&] {
    const bool is_consumer = thread_index() >= 128;
    emulator::detail::setmaxnreg(is_consumer, is_consumer ? claims : keeps, __LINE__, __FILE__);
  }));
}

static std::vector<std::string> of_consumers() {
  std::vector<std::string> labels;
  for (int c = 1; c <= MOST_CONSUMERS; ++c) labels.push_back(std::to_string(c) + " consumers");
  return labels;
}

TEST_CASE("at launch") {
  exercise::check_output<Way, Answer>({"at_launch", 0, 0, of_consumers()}, MISTAKES,
                                      [](const auto& f) { return launches(f); });
}

static void check_claims(int producer_needs) {
  std::string seen = "a producer that needs " + std::to_string(producer_needs);
  for (int c = 1; c <= MOST_CONSUMERS; ++c) {
    const int claimed = Answer{}.claim(c, producer_needs);
    if (claimed == Way{}.claim(c, producer_needs)) continue;
    const std::string hazards = claim_all(c, Way{}.keeps(producer_needs), claimed);
    seen += ", beside " + std::to_string(c) + " consumers that claim " + std::to_string(claimed) +
            ":\n" + (hazards.empty() ? "they come through, and could claim more" : hazards);
    break;
  }
  INFO(seen);
  exercise::check_output<Way, Answer>({"claim", 0, 0, of_consumers()}, MISTAKES,
                                      [&](const auto& f) { return claims(f, producer_needs); });
}
TEST_CASE("claims, the producer needs 24") { check_claims(24); }
TEST_CASE("claims, the producer needs 8") { check_claims(8); }
TEST_CASE("claims, the producer needs 33") { check_claims(33); }
TEST_CASE("claims, the producer needs 56") { check_claims(56); }

static void check_most(int producer_needs) {
  std::vector<std::string> labels;
  for (const int needs : kConsumerNeeds) labels.push_back("need " + std::to_string(needs));
  exercise::check_output<Way, Answer>({"most_consumers", 0, 0, labels}, MISTAKES,
                                      [&](const auto& f) { return fitting(f, producer_needs); });
}
TEST_CASE("how many consumers, the producer needs 24") { check_most(24); }
TEST_CASE("how many consumers, the producer needs 8") { check_most(8); }
TEST_CASE("how many consumers, the producer needs 33") { check_most(33); }
TEST_CASE("how many consumers, the producer needs 56") { check_most(56); }
TEST_CASE("how many consumers, the producer needs 72") { check_most(kMuchForProducer[0]); }
TEST_CASE("how many consumers, the producer needs 97") { check_most(kMuchForProducer[1]); }

// The claims above succeed, and claims of 8 more do not.
TEST_CASE("the emulator comes through") {
  for (int consumers = 1; consumers <= MOST_CONSUMERS; ++consumers)
    for (const int needs : kProducerNeeds) {
      const int claims = Way{}.claim(consumers, needs);
      CHECK(claim_all(consumers, Way{}.keeps(needs), claims) == "");
      CHECK(claim_all(consumers, Way{}.keeps(needs), claims + 8) != "");
    }
}
