#include <doctest/doctest.h>

#include <cmath>
#include <power.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

static double peak(double ghz) { return MULTIPROCESSORS * 2.0 * MULTIPLY_ADDS * ghz * 1e-3; }
static double thousand(int power) { return std::pow(1000.0, power); }

// The right functions, and each mistake as a change to them. Each function may be right although
// another one makes the mistake.
struct Way {
  exercise::Changes is;

  double speed(const Launch& x) const {
    double products = static_cast<double>(x.batch * x.heads * x.len_q) *
                      static_cast<double>(x.len_kv * x.head_dim);  // multiply-adds of Q K.T
    const double lengths = static_cast<double>(x.len_q) / static_cast<double>(x.len_kv);
    if (is("q-squared")) products *= lengths;
    if (is("kv-squared")) products /= lengths;
    if (is("heads-forgotten")) products /= static_cast<double>(x.heads);
    if (is("batch-forgotten")) products /= static_cast<double>(x.batch);
    const double counted = is("causal-counted-whole")           ? 1
                           : x.causal == is("causal-exchanged") ? 1
                                                                : 0.5;
    if (is("half-is-0") && x.causal) return 0;
    return is.number("operations", 4) * products * counted / (x.ms * 1e-3) / 1e12;
  }
  // A mistake in the speed is in all that follows from it, or only in one of the functions.
  double tflops(const Launch& x) const {
    return is("tflops-right") ? Way{}.speed(x) : speed(x) * thousand(is.integer("tflops", 0));
  }
  double share(const Launch& x) const {
    return speed(x) * (is("one-multiprocessor") ? MULTIPROCESSORS : 1) /
           peak(is("boost-peak") ? BOOST_GHZ : x.ghz);
  }
  double utilization(const Launch& x) const {
    if (is("share-right")) return Way{}.share(x);
    if (is("share-of-all-operations")) return 2 * Way{}.share(x);
    if (is("share-in-percent")) return 100 * share(x);
    return share(x) * thousand(is.integer("share", 0));
  }
  double picojoules(const Launch& x) const {
    const double energy = x.watts / (is("energy-right") ? Way{}.speed(x) : speed(x));
    return is("operations-for-a-joule") ? 1 / energy
           : is("energy-of-the-launch") ? x.watts * x.ms * is.number("energy-of-the-launch", 1)
           : is("energy-at-the-peak")   ? x.watts / peak(x.ghz)
           : is("energy-at-the-boost")  ? x.watts / peak(BOOST_GHZ)
                                        : energy * thousand(is.integer("energy", 0));
  }
  double paid_back(const Launch& before, const Launch& after) const {
    const Way& by = is("paid-right") ? static_cast<const Way&>(Way{}) : *this;
    const double faster =
        is("time-for-speed") ? before.ms / after.ms - 1 : by.speed(after) / by.speed(before) - 1;
    const double share_before = by.share(before), share_after = by.share(after);
    const double gain = share_after / share_before - 1, slower = 1 - after.ghz / before.ghz;
    const double lost = 1 - faster / gain;
    return is("share-that-was-kept")    ? faster / gain
           : is("paid-in-percent")      ? 100 * lost
           : is("loss-of-clock")        ? slower
           : is("loss-by-the-later")    ? before.ghz / after.ghz - 1
           : is("clock-over-gain")      ? slower / gain
           : is("points-for-the-gain")  ? 1 - faster / (share_after - share_before)
           : is("gain-that-is-missing") ? gain - faster
           : is("gains-exchanged")      ? 1 - gain / faster
                                        : lost;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  double tflops(const Launch& x) const { return ::tflops(x); }
  double utilization(const Launch& x) const { return ::utilization(x); }
  double picojoules(const Launch& x) const { return ::picojoules(x); }
  double paid_back(const Launch& before, const Launch& after) const {
    return ::paid_back(before, after);
  }
};

static const exercise::Table MISTAKES(R"(
$wrong = {share-right,} {energy-right,} {paid-right,}
$right = tflops-right {,share-right,energy-right,paid-right,share-right energy-right,share-right paid-right,energy-right paid-right}
$factor = {,tflops-right,share-right,energy-right,tflops-right share-right,share-right energy-right}
$t = {tflops=1,tflops=-1,tflops=2,tflops=-2,tflops=3,tflops=4
$s = {share=1,share=-1,share=2,share=-2,share=3,share=4
$e = {energy=1,energy=-1,energy=2,energy=-2,energy=3,energy=-3,energy=4,energy=-4}
causal-counted-whole: causal-counted-whole $factor; causal-counted-whole tflops-right energy-right
  with a causal mask half of the operations are counted, because the others are not needed
causal-the-wrong-way: causal-exchanged $factor; causal-exchanged tflops-right energy-right
  half is counted with a causal mask, all without
half-of-an-integer: half-is-0 $wrong; half-is-0 $right
  1 / 2 is 0 in C++: half is 0.5, or a division by 2 at the end
multiply-add-as-one: operations=2 share-of-all-operations paid-right {,tflops-right} {,energy-right};
    operations=2 share-right paid-right {,tflops-right,energy-right}
  a multiply-add is two operations, in what the kernel does and in the peak
two-operations-of-four: operations=2 paid-right {,tflops-right} {,energy-right}
  2 operations were counted for each element of S and each column of a head. It should be 4, because
  there are two products, Q K.T and P V, and a multiply-add is two operations
operations-counted-twice: operations=8 $factor
  4 for each element of S and each column of a head, and not 8: two products, two operations a
  multiply-add
highest-clock-for-the-peak: boost-peak {,share-right,paid-right}
  the peak is that of the highest clock. But the tensor cores ran at launch.ghz
one-multiprocessor
  the peak is that of one multiprocessor, and the card has 132
powers-of-ten: $t,} $s,} $e; $t,} $s}; $t}
  the digits are right, the power of ten is not: milliseconds, GHz, TFLOP are 10^-3, 10^9, 10^12
percent-for-a-share: share-in-percent {,paid-in-percent}; paid-in-percent
  this is in percent. A share is 0 to 1
one-length-for-both: {q-squared,kv-squared} $factor;
    {q-squared,kv-squared} tflops-right energy-right
  S has len_q rows and len_kv columns. Here is one of them squared
heads-forgotten: heads-forgotten $wrong; heads-forgotten $right
  each head of each sequence has its own S: batch * heads of them
batch-forgotten: batch-forgotten $wrong; batch-forgotten $right
  each sequence of the batch has its own heads: batch * heads
operations-for-a-joule
  these are operations for an energy. The energy of one operation is its inverse
energy-of-the-launch: energy-of-the-launch={1e-3,1,1e9}
  this is the energy of the whole launch. Divide by its operations
energy-at-the-peak: energy-at-the-peak; energy-at-the-boost
  the power was divided by what the card could do. Divide it by what the kernel did
share-that-was-kept
  this is the share of the gain that became speed. Return the share that the lower clock took
time-for-speed
  the times were compared. A speed is operations a second, and the launches may differ in their
  operations
loss-of-clock: loss-of-clock; loss-by-the-later
  this is how much the clock dropped. Return the share of the gain that this drop took
clock-over-gain
  the loss of clock was divided by the gain in utilization. The two multiply, so that the gain that
  did not become speed is larger than this
points-for-the-gain
  the gain in utilization is the difference of two shares. Count it in parts of `before`, as that of
  the speed
gain-that-is-missing
  this is the difference of the two gains. Return its share of the utilization's gain
gains-exchanged
  the gains are exchanged: the whole is that of the utilization
)");

// Chosen, not measured, for a card at 700 W since the third.
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

template <class Functions>
static Numbers of_launches(const Functions& f, bool causal) {
  Numbers all;
  for (const Launch& x : kLaunches)
    if (x.causal == causal)
      for (const double number : {f.tflops(x), f.utilization(x), f.picojoules(x)})
        all.push_back(number);
  return all;
}

static void check_launches(bool causal) {
  exercise::check_output<Way, Answer>(
      {"launch", 3, 1e-6, {"tflops", "utilization", "picojoules"}}, MISTAKES,
      [&](const auto& functions) { return of_launches(functions, causal); });
}
TEST_CASE("without a mask") { check_launches(false); }
TEST_CASE("with a causal mask") { check_launches(true); }
TEST_CASE("paid back") {
  exercise::check_output<Way, Answer>({"paid_back", 0, 1e-6}, MISTAKES, [](const auto& functions) {
    Numbers all;
    for (const auto& [before, after] : kPairs)
      all.push_back(functions.paid_back(kLaunches[before], kLaunches[after]));
    return all;
  });
}

// In each pair the second has the higher utilization, and no kernel does more than the cores can.
TEST_CASE("the launches") {
  for (const auto& [before, after] : kPairs) {
    CHECK(Way{}.share(kLaunches[before]) < Way{}.share(kLaunches[after]));
    CHECK(Way{}.share(kLaunches[after]) < 1);
  }
}
