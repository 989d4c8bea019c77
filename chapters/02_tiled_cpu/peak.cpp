#include "peak.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "common/parallel.hpp"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3_DL | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "chapters/02_tiled_cpu/peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ch02 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Runs twelve independent chains of multiply-adds and returns the number of operations. Two units
// with a latency of four or five cycles are then always busy. Each chain starts at another value,
// because the compiler would merge equal chains into one and the result would exceed the machine's
// peak.
double multiply_add_chains(int64_t steps, float* sink) {
  const hn::ScalableTag<float> f32;
  const auto a = hn::Set(f32, sink[0]), b = hn::Set(f32, sink[1]);
  auto c0 = hn::Iota(f32, 0.0f), c1 = hn::Iota(f32, 1.0f), c2 = hn::Iota(f32, 2.0f);
  auto c3 = hn::Iota(f32, 3.0f), c4 = hn::Iota(f32, 4.0f), c5 = hn::Iota(f32, 5.0f);
  auto c6 = hn::Iota(f32, 6.0f), c7 = hn::Iota(f32, 7.0f), c8 = hn::Iota(f32, 8.0f);
  auto c9 = hn::Iota(f32, 9.0f), c10 = hn::Iota(f32, 10.0f), c11 = hn::Iota(f32, 11.0f);
  for (int64_t i = 0; i < steps; ++i) {
    c0 = hn::MulAdd(c0, a, b), c1 = hn::MulAdd(c1, a, b), c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b), c4 = hn::MulAdd(c4, a, b), c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b), c7 = hn::MulAdd(c7, a, b), c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b), c10 = hn::MulAdd(c10, a, b), c11 = hn::MulAdd(c11, a, b);
  }
  for (const auto c : {c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11}) c0 = hn::Add(c0, c);
  sink[0] = hn::GetLane(c0);  // keeps the compiler from removing the chains
  return 2.0 * 12 * hn::Lanes(f32) * steps;
}

}  // namespace HWY_NAMESPACE
}  // namespace ch02
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ch02 {

HWY_EXPORT(multiply_add_chains);

namespace {

using Clock = std::chrono::steady_clock;

// Starts `threads` threads at the same time and returns the sum of the rates that they report.
// Every thread measures its own time, because starting sixteen threads can take longer than the
// work.
double rate_together(int threads, const std::function<double(int)>& work) {
  std::barrier start(threads);
  std::vector<double> rates(threads);
  {
    std::vector<std::jthread> workers;
    for (int thread = 0; thread < threads; ++thread) {
      workers.emplace_back([&, thread] {
        start.arrive_and_wait();
        const Clock::time_point begin = Clock::now();
        const double done = work(thread);
        rates[thread] = done / std::chrono::duration<double>(Clock::now() - begin).count();
      });
    }
  }
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace

double measure_peak_gflops(int threads) {
  if (threads <= 0) threads = fa::hardware_threads();
  double best = 0;
  for (int run = 0; run < 6; ++run) {
    const double rate = rate_together(threads, [&](int) {
      float sink[2] = {0.5f, 0.25f};
      return HWY_DYNAMIC_DISPATCH(multiply_add_chains)(12'000'000, sink);
    });
    if (run > 0) best = std::max(best, rate * 1e-9);  // run 0 is a warm-up
  }
  return best;
}

double measure_copy_gbs(int threads) {
  if (threads <= 0) threads = fa::hardware_threads();
  const size_t total = size_t{256} << 20, part = total / threads;
  std::vector<std::vector<char>> from(threads), to(threads);
  rate_together(threads, [&](int thread) {  // touch each page first
    from[thread].assign(part, 1);
    to[thread].assign(part, 2);
    return 0.0;
  });
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const double rate = rate_together(threads, [&](int thread) {
      std::memcpy(to[thread].data(), from[thread].data(), part);
      return 2.0 * part;
    });
    best = std::max(best, rate * 1e-9);
  }
  return best;
}

}  // namespace ch02
#endif  // HWY_ONCE
