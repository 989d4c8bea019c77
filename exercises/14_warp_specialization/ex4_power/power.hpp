#pragma once
// Figures of a kernel from its speed, clock and power.

#include <cstdint>

#include "exercises/support/todo.hpp"

// A launch of attention, forward, and its measurements.
struct Launch {
  int64_t batch, heads, len_q, len_kv, head_dim;
  bool causal;   // true if no query sees later keys, so that half of the operations are counted
  double ms;     // that it took
  double ghz;    // the clock at which the card ran
  double watts;  // that the card drew
};

constexpr int MULTIPROCESSORS = 132;
constexpr int MULTIPLY_ADDS = 2048;  // per SM and clock, by its tensor cores, in bf16
constexpr double BOOST_GHZ = 1.98;   // the highest clock

// 10^12 floating-point operations a second, those of the two products Q K.T and P V.
inline double tflops(const Launch& launch) {
  exercise::todo("TODO(14.4): speed, utilization, energy, and the share lost to the clock");
}

// The share of the tensor cores' peak at the clock at which they ran: 0 to 1.
inline double utilization(const Launch& launch) {
  exercise::todo("TODO(14.4): speed, utilization, energy, and the share lost to the clock");
}

// The energy of one floating-point operation in pJ, 10^-12 joules. A watt is a joule a second.
inline double picojoules(const Launch& launch) {
  exercise::todo("TODO(14.4): speed, utilization, energy, and the share lost to the clock");
}

// `after` is the better kernel, with a higher utilization. In parts of `before`, speed has gained a
// part of that gain, and the rest was lost to the lower clock. Returns 0 if speed has gained as
// much, 1 if nothing, more than 1 if it has lost.
inline double paid_back(const Launch& before, const Launch& after) {
  exercise::todo("TODO(14.4): speed, utilization, energy, and the share lost to the clock");
}
