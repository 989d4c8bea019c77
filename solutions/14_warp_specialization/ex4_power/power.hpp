#pragma once
// The clock is that of the launch, because utilization describes the kernel, and the clock
// describes the card. The energy has no power of ten, because one watt per 10^12 operations per
// second is 10^-12 joules per operation.

#include <cstdint>

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
  const int64_t products =
      launch.batch * launch.heads * launch.len_q * launch.len_kv * launch.head_dim;
  const double operations = 4.0 * static_cast<double>(products) * (launch.causal ? 0.5 : 1);
  return operations / (launch.ms * 1e-3) / 1e12;
}

// The share of the tensor cores' peak at the clock at which they ran: 0 to 1.
inline double utilization(const Launch& launch) {
  const double peak = MULTIPROCESSORS * 2.0 * MULTIPLY_ADDS * launch.ghz * 1e9;
  return tflops(launch) * 1e12 / peak;
}

// The energy of one floating-point operation in pJ, 10^-12 joules. A watt is a joule a second.
inline double picojoules(const Launch& launch) { return launch.watts / tflops(launch); }

// `after` is the better kernel, with a higher utilization. In parts of `before`, speed has gained a
// part of that gain, and the rest was lost to the lower clock. Returns 0 if speed has gained as
// much, 1 if nothing, more than 1 if it has lost.
inline double paid_back(const Launch& before, const Launch& after) {
  const double gain = utilization(after) / utilization(before) - 1;
  const double faster = tflops(after) / tflops(before) - 1;
  return (gain - faster) / gain;
}
