#include <doctest/doctest.h>

#include <cmath>
#include <power.hpp>
#include <set>

#include "exercises/support/verdict.hpp"

// The four functions; a mistake changes some of them.
using Of = double (*)(const Launch& launch);
using Gain = double (*)(const Launch& before, const Launch& after);
struct Functions {
  Of tflops, utilization, picojoules;
  Gain paid_back;
};

static double counted(const Launch& x) { return x.causal ? 0.5 : 1.0; }
static double speed(double products, const Launch& x) {  // products: multiply-adds of Q K.T
  return 4 * products * counted(x) / (x.ms * 1e-3) / 1e12;
}
static double products(const Launch& x) {
  return static_cast<double>(x.batch * x.heads * x.len_q) *
         static_cast<double>(x.len_kv * x.head_dim);
}
static double peak(double ghz) { return MULTIPROCESSORS * 2.0 * MULTIPLY_ADDS * ghz * 1e-3; }

static double right_speed(const Launch& x) { return speed(products(x), x); }
// Results derived from a speed and from a utilization.
template <Of SPEED>
static double share(const Launch& x) {
  return SPEED(x) / peak(x.ghz);
}
template <Of SPEED>
static double energy(const Launch& x) {
  return x.watts / SPEED(x);
}
template <Of X>
static double gain(const Launch& before, const Launch& after) {
  return X(after) / X(before) - 1;
}
template <Of SPEED, Of SHARE>
static double paid(const Launch& before, const Launch& after) {
  return 1 - gain<SPEED>(before, after) / gain<SHARE>(before, after);
}
constexpr Of right_share = share<right_speed>;
const Functions kRight = {right_speed, right_share, energy<right_speed>,
                          paid<right_speed, right_share>};

struct Wrong {
  const char *name, *explanation;
  std::vector<Of> tflops, utilization, picojoules;
  std::vector<Gain> paid_back;
};
// A wrong speed, and all that follows from it.
template <Of SPEED>
static Wrong wrong_speed(const char* name, const char* explanation) {
  return {name, explanation, {SPEED}, {share<SPEED>}, {energy<SPEED>}, {paid<SPEED, share<SPEED>>}};
}
template <Of SHARE>
static Wrong wrong_share(const char* name, const char* explanation) {
  return {name, explanation, {}, {SHARE}, {}, {paid<right_speed, SHARE>}};
}
template <int THOUSANDS>
static double off_speed(const Launch& x) {
  return right_speed(x) * std::pow(1000.0, THOUSANDS);
}
template <int THOUSANDS>
static double off_share(const Launch& x) {
  return right_share(x) * std::pow(1000.0, THOUSANDS);
}
template <int THOUSANDS>
static double off_energy(const Launch& x) {
  return x.watts / right_speed(x) * std::pow(1000.0, THOUSANDS);
}
static double half_speed(const Launch& x) { return right_speed(x) / 2; }

static const std::vector<Wrong> kWrong = {
    wrong_speed<[](const Launch& x) { return right_speed(x) / counted(x); }>(
        "causal-counted-whole",
        "with a causal mask half of the operations are counted, because the others are not needed"),
    wrong_speed<[](const Launch& x) { return right_speed(x) * (x.causal ? 2 : 0.5); }>(
        "causal-the-wrong-way", "half is counted with a causal mask, all without"),
    wrong_speed<[](const Launch& x) { return x.causal ? 0 : right_speed(x); }>(
        "half-of-an-integer", "1 / 2 is 0 in C++: half is 0.5, or a division by 2 at the end"),
    {"multiply-add-as-one",
     "a multiply-add is two operations, in what the kernel does and in the peak",
     {half_speed},
     {[](const Launch& x) { return 2 * right_share(x); }},
     {energy<half_speed>},
     {}},
    {"two-operations-of-four",
     "2 operations were counted for each element of S and each column of a head; it is 4: two "
     "products, Q K.T and P V, two operations a multiply-add",
     {half_speed},
     {share<half_speed>},
     {energy<half_speed>},
     {}},
    wrong_speed<[](const Launch& x) { return 2 * right_speed(x); }>(
        "operations-counted-twice",
        "4 for each element of S and each column of a head, and not 8: two products, two "
        "operations a multiply-add"),
    wrong_share<[](const Launch& x) { return right_speed(x) / peak(BOOST_GHZ); }>(
        "highest-clock-for-the-peak",
        "the peak is that of the highest clock; the tensor cores ran at launch.ghz"),
    {"one-multiprocessor",
     "the peak is that of one multiprocessor, and the card has 132",
     {},
     {[](const Launch& x) { return right_share(x) * MULTIPROCESSORS; }},
     {},
     {}},
    {"powers-of-ten",
     "the digits are right, the power of ten is not: milliseconds, GHz, TFLOP are 10^-3, 10^9, "
     "10^12",
     {off_speed<1>, off_speed<-1>, off_speed<2>, off_speed<-2>, off_speed<3>, off_speed<4>},
     {off_share<1>, off_share<-1>, off_share<2>, off_share<-2>, off_share<3>, off_share<4>},
     {off_energy<1>, off_energy<-1>, off_energy<2>, off_energy<-2>, off_energy<3>, off_energy<-3>,
      off_energy<4>, off_energy<-4>},
     {}},
    {"percent-for-a-share",
     "this is in percent; a share is 0 to 1",
     {},
     {[](const Launch& x) { return 100 * right_share(x); }},
     {},
     {[](const Launch& before, const Launch& after) {
       return 100 * paid<right_speed, right_share>(before, after);
     }}},
    wrong_speed<[](const Launch& x) {
      return right_speed(x) * static_cast<double>(x.len_q) / static_cast<double>(x.len_kv);
    }>("one-length-for-both", "S has len_q rows and len_kv columns; here is one of them squared"),
    wrong_speed<[](const Launch& x) {
      return right_speed(x) * static_cast<double>(x.len_kv) / static_cast<double>(x.len_q);
    }>("one-length-for-both", "S has len_q rows and len_kv columns; here is one of them squared"),
    wrong_speed<[](const Launch& x) { return right_speed(x) / static_cast<double>(x.heads); }>(
        "heads-forgotten", "each head of each sequence has its own S: batch * heads of them"),
    wrong_speed<[](const Launch& x) { return right_speed(x) / static_cast<double>(x.batch); }>(
        "batch-forgotten", "each sequence of the batch has its own heads: batch * heads"),
    {"operations-for-a-joule",
     "these are operations for an energy; the energy of one operation is its inverse",
     {},
     {},
     {[](const Launch& x) { return right_speed(x) / x.watts; }},
     {}},
    {"energy-of-the-launch",
     "this is the energy of the whole launch; divide by its operations",
     {},
     {},
     {[](const Launch& x) { return x.watts * x.ms * 1e-3; },
      [](const Launch& x) { return x.watts * x.ms; },
      [](const Launch& x) { return x.watts * x.ms * 1e9; }},
     {}},
    {"energy-at-the-peak",
     "the power was divided by what the card could do; divide it by what the kernel did",
     {},
     {},
     {[](const Launch& x) { return x.watts / peak(x.ghz); },
      [](const Launch& x) { return x.watts / peak(BOOST_GHZ); }},
     {}},
    {"share-that-was-kept",
     "this is the share of the gain that became speed. Return the share that the lower clock took",
     {},
     {},
     {},
     {[](const Launch& before, const Launch& after) {
       return gain<right_speed>(before, after) / gain<right_share>(before, after);
     }}},
    {"time-for-speed",
     "the times were compared; a speed is operations a second, and the launches may differ in "
     "their operations",
     {},
     {},
     {},
     {[](const Launch& before, const Launch& after) {
       return 1 - (before.ms / after.ms - 1) / gain<right_share>(before, after);
     }}},
    {"loss-of-clock",
     "this is how much the clock dropped. Return the share of the gain that this drop took",
     {},
     {},
     {},
     {[](const Launch& before, const Launch& after) { return 1 - after.ghz / before.ghz; },
      [](const Launch& before, const Launch& after) { return before.ghz / after.ghz - 1; }}},
    {"clock-over-gain",
     "the loss of clock was divided by the gain in utilization. The two multiply, so that the gain "
     "that did not become speed is larger than this",
     {},
     {},
     {},
     {[](const Launch& before, const Launch& after) {
       return (1 - after.ghz / before.ghz) / gain<right_share>(before, after);
     }}},
    {"points-for-the-gain",
     "the gain in utilization is the difference of two shares; count it in parts of `before`, as "
     "that of the speed",
     {},
     {},
     {},
     {[](const Launch& before, const Launch& after) {
       return 1 - gain<right_speed>(before, after) / (right_share(after) - right_share(before));
     }}},
    {"gain-that-is-missing",
     "this is the difference of the two gains. Return its share of the utilization's gain",
     {},
     {},
     {},
     {[](const Launch& before, const Launch& after) {
       return gain<right_share>(before, after) - gain<right_speed>(before, after);
     }}},
    {"gains-exchanged",
     "the gains are exchanged: the whole is that of the utilization",
     {},
     {},
     {},
     {[](const Launch& before, const Launch& after) {
       return 1 - gain<right_share>(before, after) / gain<right_speed>(before, after);
     }}},
};

// Chosen, not measured: a card at 700 W since the third.
const Launch kLaunches[] = {{1, 8, 4096, 4096, 128, false, 0.15, 1.70, 650},
                            {2, 4, 2048, 8192, 128, false, 0.16, 1.92, 540},
                            {2, 16, 8192, 8192, 128, false, 2.0, 1.60, 700},
                            {2, 16, 8192, 8192, 128, false, 1.7, 1.48, 700},
                            {2, 16, 4096, 8192, 64, true, 0.40, 1.75, 640},
                            {4, 8, 4096, 8192, 64, true, 0.33, 1.71, 690},
                            {2, 16, 8192, 8192, 128, true, 0.98, 1.60, 700},
                            {2, 16, 8192, 8192, 128, true, 0.91, 1.45, 700},
                            {2, 16, 8192, 8192, 128, true, 0.93, 1.39, 700}};
// Positions of `before` and `after`; the last of them is slower, though it fills the cores better.
const int kPairs[][2] = {{2, 3}, {4, 5}, {6, 7}, {0, 3}, {7, 8}};

static exercise::Numbers of_launches(const Functions& f, bool causal) {
  exercise::Numbers all;
  for (const Launch& x : kLaunches)
    if (x.causal == causal)
      for (const Of function : {f.tflops, f.utilization, f.picojoules}) all.push_back(function(x));
  return all;
}
static exercise::Numbers of_pairs(const Functions& f) {
  exercise::Numbers all;
  for (const auto& [before, after] : kPairs)
    all.push_back(f.paid_back(kLaunches[before], kLaunches[after]));
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
  std::set<std::vector<std::string>> known;
  const auto add = [&](const Wrong* wrong, const Functions& functions) {
    std::vector<std::string> sum;
    for (const bool causal : {false, true})
      for (const double number : of_launches(functions, causal))
        sum.push_back(exercise::text(number));
    for (const double number : of_pairs(functions)) sum.push_back(exercise::text(number));
    if (known.insert(sum).second && wrong) all.push_back({wrong, functions});
  };
  add(nullptr, kRight);
  for (const Wrong& wrong : kWrong) {
    const auto options = [](auto right, auto formulas) {
      formulas.insert(formulas.begin(), right);
      return formulas;
    };
    for (const Of tflops : options(kRight.tflops, wrong.tflops))
      for (const Of utilization : options(kRight.utilization, wrong.utilization))
        for (const Of picojoules : options(kRight.picojoules, wrong.picojoules))
          for (const Gain paid_back : options(kRight.paid_back, wrong.paid_back))
            add(&wrong, {tflops, utilization, picojoules, paid_back});
  }
  return all;
}

// The answer's, whatever they return.
const Functions kAnswer = {[](const Launch& x) { return static_cast<double>(tflops(x)); },
                           [](const Launch& x) { return static_cast<double>(utilization(x)); },
                           [](const Launch& x) { return static_cast<double>(picojoules(x)); },
                           [](const Launch& before, const Launch& after) {
                             return static_cast<double>(paid_back(before, after));
                           }};

template <class NumbersOf>
static void check_numbers(const exercise::Output& output, NumbersOf numbers) {
  std::vector<exercise::Mistake> mistakes;
  for (const Variant& variant : variants())
    mistakes.push_back(
        {variant.wrong->name, numbers(variant.functions), variant.wrong->explanation});
  exercise::check_output(output, numbers(kAnswer), numbers(kRight), mistakes);
}

const std::vector<std::string> kLabels = {"tflops", "utilization", "picojoules"};
TEST_CASE("without a mask") {
  check_numbers({"launch", 3, 1e-6, kLabels},
                [](const Functions& f) { return of_launches(f, false); });
}
TEST_CASE("with a causal mask") {
  check_numbers({"launch", 3, 1e-6, kLabels},
                [](const Functions& f) { return of_launches(f, true); });
}
TEST_CASE("paid back") { check_numbers({"paid_back", 0, 1e-6}, of_pairs); }

// In each pair the second has the higher utilization, and no kernel does more than the cores can.
TEST_CASE("the launches") {
  for (const auto& pair : kPairs) {
    CHECK(right_share(kLaunches[pair[0]]) < right_share(kLaunches[pair[1]]));
    CHECK(right_share(kLaunches[pair[1]]) < 1);
  }
}
