#include <doctest/doctest.h>

#include <register_budget.hpp>
#include <set>
#include <stdexcept>

#include "exercises/support/warp.hpp"

using namespace emulator;

constexpr int REGISTERS = 65536, MOST = 256, LEAST = 24, MOST_CONSUMERS = 7;

// The three functions; a mistake changes some of them.
using Launch = int (*)(int consumers);
using Claim = int (*)(int consumers, int producer_needs);
struct Functions {
  Launch at_launch;
  Claim claim, most;  // most: (consumer_needs, producer_needs)
};
static int down(int x) { return x / 8 * 8; }
static int up(int x) { return (x + 7) / 8 * 8; }
static int launched(int threads) { return down(REGISTERS / threads); }
static int right_launch(int consumers) { return launched(128 * (1 + consumers)); }
static int keeps(int needs) { return std::max(LEAST, up(needs)); }
static int shared(int sum, int producer, int consumers) {
  return std::min(MOST, down((sum - producer) / consumers));
}
static int right_claim(int c, int needs) {
  return shared((1 + c) * right_launch(c), keeps(needs), c);
}
// The largest number of consumers for which it is enough.
template <class Needs>
static int most_that(Needs enough) {
  int most = 0;
  for (int c = 1; c <= MOST_CONSUMERS; ++c)
    if (enough(c)) most = c;
  return most;
}
// Both must have enough: the producer at launch, each consumer when it has claimed.
template <Claim CLAIM, Launch LAUNCH = right_launch>
static int most_by(int consumer_needs, int producer_needs) {
  return most_that([&](int c) {
    return producer_needs <= LAUNCH(c) && consumer_needs <= CLAIM(c, producer_needs);
  });
}

template <int CONSUMERS>
static int most_up_to(int consumer_needs, int producer_needs) {
  int most = 0;
  for (int c = 1; c <= CONSUMERS; ++c)
    if (producer_needs <= right_launch(c) && consumer_needs <= right_claim(c, producer_needs))
      most = c;
  return most;
}

const Functions kRight = {right_launch, right_claim, most_by<right_claim>};

// A wrong claim; most_consumers may come from it, or be right.
struct Wrong {
  const char *name, *explanation;
  std::vector<Launch> at_launch;
  std::vector<Claim> claim, most;
};
template <Claim CLAIM, Launch... LAUNCHES>
static Wrong wrong_claim(const char* name, const char* explanation) {
  return {name, explanation, {LAUNCHES...}, {CLAIM}, {most_by<CLAIM>, most_by<CLAIM, LAUNCHES>...}};
}

static int without_producer(int c) { return launched(128 * c); }
static int capped_without_producer(int c) { return std::min(MOST, without_producer(c)); }
static int with_one_warp(int c) { return launched(128 * c + 32); }
static int capped_with_one_warp(int c) { return std::min(MOST, with_one_warp(c)); }
static int not_rounded(int c) { return REGISTERS / (128 * (1 + c)); }
static int rounded_up(int c) { return up(REGISTERS / (128 * (1 + c))); }
static int capped_at_255(int c) { return std::min(255, right_launch(c)); }

static const char* const kAllThreads =
    "the 65536 were divided among the consumers' threads; at launch the producer's 128 have as "
    "many each";
static const char* const kLess =
    "the producer kept less than 24, and setmaxnreg takes 24 to 256: with 8 it needs 24";
static const char* const kUp =
    "the claim was rounded up, and all consumers together claim more than there is";

static const std::vector<Wrong> kWrong = {
    wrong_claim<[](int c, int) { return without_producer(c); }, without_producer,
                capped_without_producer>("producer-forgotten-at-launch", kAllThreads),
    wrong_claim<[](int c, int needs) {
      return shared((1 + c) * without_producer(c), keeps(needs), c);
    },
                without_producer, capped_without_producer>("producer-forgotten-at-launch",
                                                           kAllThreads),
    wrong_claim<[](int c, int needs) { return shared(c * without_producer(c), keeps(needs), c); },
                without_producer, capped_without_producer>("producer-forgotten-at-launch",
                                                           kAllThreads),
    wrong_claim<[](int c, int needs) {
      return shared((1 + c) * with_one_warp(c), keeps(needs), c);
    },
                with_one_warp, capped_with_one_warp>(
        "producer-of-one-warp", "the producer was taken for one warp; it is a warpgroup of four"),
    wrong_claim<[](int c, int needs) { return shared(REGISTERS / 128, keeps(needs), c); }>(
        "whole-file-shared",
        "the claim divides all 65536 registers. Only registers that the launch has given out can "
        "be claimed; those lost to its rounding cannot"),
    wrong_claim<[](int c, int needs) { return shared((1 + c) * not_rounded(c), keeps(needs), c); },
                not_rounded>("launch-not-rounded",
                             "at launch each thread gets a multiple of 8, and the registers lost "
                             "to rounding stay unused"),
    wrong_claim<[](int c, int needs) { return shared((1 + c) * rounded_up(c), keeps(needs), c); },
                rounded_up>("launch-rounded-up",
                            "what each thread has at launch was rounded up, and all together would "
                            "have more than 65536"),
    wrong_claim<[](int c, int needs) {
      return down(((1 + c) * right_launch(c) - keeps(needs)) / c);
    }>("more-than-256",
       "the share of a single consumer is more than 256, and no thread can have more"),
    wrong_claim<[](int c, int) { return shared((1 + c) * right_launch(c), 0, c); }>(
        "producer-keeps-nothing",
        "the consumers got the producer's registers too; it keeps what it needs, 24 or more"),
    wrong_claim<[](int c, int) { return shared((1 + c) * right_launch(c), LEAST, c); }>(
        "producer-keeps-24-always", "the producer kept 24, whatever it needs"),
    wrong_claim<[](int c, int needs) { return shared((1 + c) * right_launch(c), up(needs), c); }>(
        "producer-below-24", kLess),
    wrong_claim<[](int c, int needs) {
      return shared((1 + c) * right_launch(c), std::max(LEAST, down(needs)), c);
    }>("needs-rounded-down",
       "what the producer keeps was rounded down, and is less than it needs: with 33 it needs 40"),
    wrong_claim<[](int c, int needs) {
      return std::min(MOST, ((1 + c) * right_launch(c) - keeps(needs)) / c);
    }>("claim-not-a-multiple-of-8", "the claim is no multiple of 8; setmaxnreg takes no other"),
    wrong_claim<[](int c, int needs) {
      return std::min(MOST, up(((1 + c) * right_launch(c) - keeps(needs) + c - 1) / c));
    }>("claim-rounded-up", kUp),
    wrong_claim<[](int c, int needs) {
      return std::min(MOST, up(((1 + c) * right_launch(c) - keeps(needs)) / c));
    }>("claim-rounded-up", kUp),
    wrong_claim<[](int c, int needs) {
      return std::min(MOST, 2 * right_launch(c) - keeps(needs));
    }>("given-to-each", "each consumer got all that the producer gave up; they share it"),
    wrong_claim<[](int c, int needs) {
      return std::min(MOST, right_launch(c) + down((right_launch(c) - keeps(needs)) / (1 + c)));
    }>("shared-with-the-producer",
       "what the producer gives up was shared among all warpgroups, itself too"),
    {"fits-at-launch",
     "the need was compared with what a thread has at launch; setmaxnreg gives a consumer more",
     {},
     {},
     {most_by<[](int c, int) { return right_launch(c); }>,
      [](int consumer_needs, int) {
        return most_that([&](int c) { return consumer_needs <= right_launch(c); });
      }}},
    wrong_claim<[](int c, int) { return right_launch(c); }>(
        "nothing-given-up",
        "each consumer kept what it had at launch; the producer gives up what it does not need"),
    {"capped-at-255",
     "the 256 were capped at 255, the most that an instruction can name. Launches and claims use "
     "multiples of 8, up to 256",
     {capped_at_255},
     {[](int c, int needs) { return std::min(255, right_claim(c, needs)); }},
     {most_by<[](int c, int needs) { return std::min(255, right_claim(c, needs)); }>}},
    {"producer-not-asked",
     "the consumers have what they need, but the producer does not: it cannot need more than a "
     "thread has at launch, and with more consumers that is less",
     {},
     {},
     {[](int consumer_needs, int producer_needs) {
       return most_that([&](int c) { return consumer_needs <= right_claim(c, producer_needs); });
     }}},
    {"producer-counted-as-a-consumer",
     "this is the number of warpgroups; one of them is the producer",
     {},
     {},
     {[](int consumer_needs, int producer_needs) {
        const int most = most_by<right_claim>(consumer_needs, producer_needs);
        return most == 0 ? 0 : most + 1;
      },
      [](int consumer_needs, int producer_needs) {
        return most_by<right_claim>(consumer_needs, producer_needs) + 1;
      }}},
    {"needs-all-but-one",
     "a need that is just met fits, too: <= and not <",
     {},
     {},
     {most_by<[](int c, int needs) { return right_claim(c, needs) - 1; }>,
      most_by<right_claim, [](int c) { return right_launch(c) - 1; }>,
      most_by<[](int c, int needs) { return right_claim(c, needs) - 1; },
              [](int c) { return right_launch(c) - 1; }>}},
    {"first-that-fits",
     "this is the smallest number of consumers that fits; asked is the largest",
     {},
     {},
     {[](int consumer_needs, int producer_needs) {
       return most_by<right_claim>(consumer_needs, producer_needs) > 0 ? 1 : 0;
     }}},
    {"other-than-seven",
     "try 1 to 7 consumers: a block has at most 1024 threads, and 128 of them are the producer's",
     {},
     {},
     {most_up_to<2>, most_up_to<3>, most_up_to<4>, most_up_to<6>, most_up_to<8>}},
    {"one-division",
     "the number of consumers is not a quotient, because the launch and each claim round the "
     "registers",
     {},
     {},
     {[](int consumer_needs, int producer_needs) {
        return (REGISTERS / 128 - keeps(producer_needs)) / consumer_needs;
      },
      [](int consumer_needs, int producer_needs) {
        return (REGISTERS - 128 * keeps(producer_needs)) / (128 * up(consumer_needs));
      },
      [](int consumer_needs, int producer_needs) {
        return std::min(MOST_CONSUMERS,
                        (REGISTERS / 128 - keeps(producer_needs)) / up(consumer_needs));
      }}},
};

const int kProducerNeeds[] = {8, 24, 33, 56};
const int kMuchForProducer[] = {72, 97};  // with seven consumers a thread has 64 at launch
const int kConsumerNeeds[] = {40,  64,  72,  80,  81,  88,  100, 112, 113,
                              150, 160, 161, 232, 240, 241, 256, 257};

static exercise::Numbers launches(const Functions& f) {
  exercise::Numbers all;
  for (int c = 1; c <= MOST_CONSUMERS; ++c) all.push_back(f.at_launch(c));
  return all;
}
static exercise::Numbers claims(const Functions& f, int producer_needs) {
  exercise::Numbers all;
  for (int c = 1; c <= MOST_CONSUMERS; ++c) all.push_back(f.claim(c, producer_needs));
  return all;
}
static exercise::Numbers fitting(const Functions& f, int producer_needs) {
  exercise::Numbers all;
  for (const int needs : kConsumerNeeds) all.push_back(f.most(needs, producer_needs));
  return all;
}

// Each mistake in each choice of the functions, once.
struct Variant {
  const Wrong* wrong;
  Functions functions;
};

static const std::vector<Variant>& variants() {
  static std::vector<Variant> all;
  if (!all.empty()) return all;
  std::set<exercise::Numbers> known;
  const auto add = [&](const Wrong* wrong, const Functions& functions) {
    exercise::Numbers sum = launches(functions);
    for (const int needs : kProducerNeeds) {
      for (const double number : claims(functions, needs)) sum.push_back(number);
      for (const double number : fitting(functions, needs)) sum.push_back(number);
    }
    for (const int needs : kMuchForProducer)
      for (const double number : fitting(functions, needs)) sum.push_back(number);
    if (known.insert(sum).second && wrong) all.push_back({wrong, functions});
  };
  add(nullptr, kRight);
  for (const Wrong& wrong : kWrong) {
    const auto options = [](auto right, auto formulas) {
      formulas.insert(formulas.begin(), right);
      return formulas;
    };
    for (const Launch at_launch : options(kRight.at_launch, wrong.at_launch))
      for (const Claim claim : options(kRight.claim, wrong.claim))
        for (const Claim most : options(kRight.most, wrong.most))
          add(&wrong, {at_launch, claim, most});
  }
  return all;
}

// Runs a block whose producer keeps, and whose consumers claim, these registers: its hazards.
static std::string claim_all(int consumers, int keeps, int claims) {
  for (const int registers : {keeps, claims})
    if (registers < LEAST || registers > MOST || registers % 8 != 0)
      return "setmaxnreg does not take " + std::to_string(registers) +
             ": a multiple of 8, 24 to 256\n";
  const int has = right_launch(consumers);
  if (claims < has)
    return "setmaxnreg_inc to less than the thread has, " + std::to_string(has) + "\n";
  return exercise::hazards(exercise::run_block(128 * (1 + consumers), 0, [&] {
    const bool is_consumer = thread_index() >= 128;
    emulator::detail::setmaxnreg(is_consumer, is_consumer ? claims : keeps, __LINE__, __FILE__);
  }));
}

static const Functions kAnswer = {
    [](int consumers) { return static_cast<int>(at_launch(consumers)); },
    [](int consumers, int needs) { return static_cast<int>(claim(consumers, needs)); },
    [](int needs, int producer) { return static_cast<int>(most_consumers(needs, producer)); }};

// Compares numbers(answer), and names mistakes by numbers(mistake).
template <class NumbersOf>
static void check_numbers(const exercise::Output& output, NumbersOf numbers) {
  std::vector<exercise::Mistake> mistakes;
  for (const Variant& variant : variants())
    mistakes.push_back(
        {variant.wrong->name, numbers(variant.functions), variant.wrong->explanation});
  exercise::check_output(output, numbers(kAnswer), numbers(kRight), mistakes);
}

static std::vector<std::string> of_consumers() {
  std::vector<std::string> labels;
  for (int c = 1; c <= MOST_CONSUMERS; ++c) labels.push_back(std::to_string(c) + " consumers");
  return labels;
}

TEST_CASE("at launch") { check_numbers({"at_launch", 0, 0, of_consumers()}, launches); }

static void check_claims(int producer_needs) {
  std::string seen = "a producer that needs " + std::to_string(producer_needs);
  for (int c = 1; c <= MOST_CONSUMERS; ++c) {
    const int claimed = kAnswer.claim(c, producer_needs);
    if (claimed == right_claim(c, producer_needs)) continue;
    const std::string hazards = claim_all(c, keeps(producer_needs), claimed);
    seen += ", beside " + std::to_string(c) + " consumers that claim " + std::to_string(claimed) +
            ":\n" + (hazards.empty() ? "they come through, and could claim more" : hazards);
    break;
  }
  INFO(seen);
  check_numbers({"claim", 0, 0, of_consumers()},
                [&](const Functions& f) { return claims(f, producer_needs); });
}
TEST_CASE("claims, the producer needs 24") { check_claims(24); }
TEST_CASE("claims, the producer needs 8") { check_claims(8); }
TEST_CASE("claims, the producer needs 33") { check_claims(33); }
TEST_CASE("claims, the producer needs 56") { check_claims(56); }

static void check_most(int producer_needs) {
  std::vector<std::string> labels;
  for (const int needs : kConsumerNeeds) labels.push_back("need " + std::to_string(needs));
  check_numbers({"most_consumers", 0, 0, labels},
                [&](const Functions& f) { return fitting(f, producer_needs); });
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
      const int claims = right_claim(consumers, needs);
      CHECK(claim_all(consumers, keeps(needs), claims) == "");
      CHECK(claim_all(consumers, keeps(needs), claims + 8) != "");
    }
}
