#pragma once
// Measures the wall-clock time of repeated work.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace fa {

// Returns the milliseconds of one call of `work`.
template <class Work>
double time_ms(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Returns the median, or the upper of the middle two if the number of values is even.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the median milliseconds of `runs` calls, after `warm_up` calls that do not count.
template <class Work>
double median_ms(int runs, Work&& work, int warm_up = 1) {
  for (int i = 0; i < warm_up; ++i) work();
  std::vector<double> times(runs);
  for (double& time : times) time = time_ms(work);
  return median(times);
}

}  // namespace fa
