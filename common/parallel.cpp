#include "common/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fa {

int hardware_threads() {
  if (const char* text = std::getenv("FA_THREADS")) {
    const long threads = std::strtol(text, nullptr, 10);
    if (threads >= 1 && threads <= 1024) return static_cast<int>(threads);
  }
  cpu_set_t available;  // fewer than the machine has, inside a container
  if (sched_getaffinity(0, sizeof available, &available) == 0) return CPU_COUNT(&available);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void parallel_for(int64_t count, int threads, const std::function<void(int64_t, int)>& work) {
  if (threads <= 0) threads = hardware_threads();
  threads = static_cast<int>(std::min<int64_t>(threads, count));
  std::atomic<int64_t> next{0};
  std::exception_ptr first_error;
  std::mutex error_mutex;
  const auto take_pieces = [&](int thread) {
    try {
      for (int64_t index = next++; index < count; index = next++) work(index, thread);
    } catch (...) {
      next = count;  // the others stop after the piece they are at
      const std::lock_guard lock(error_mutex);
      if (!first_error) first_error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < threads; ++thread) helpers.emplace_back(take_pieces, thread);
    if (count > 0) take_pieces(0);
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace fa
