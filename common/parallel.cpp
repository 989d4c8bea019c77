#include "common/parallel.hpp"

#include <pthread.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace fa {
namespace {

// A pool of threads, because starting a thread takes longer than a short piece of work.
class Pool {
 public:
  // Calls work(0) here and work(1), work(2), … on free helpers, each number below `threads` at most
  // once. Does not wait for helpers that are busy with a call from another thread or with an
  // enclosing call.
  void run(int threads, const std::function<void(int)>& work) {
    Task task{&work, threads};
    {
      const std::lock_guard lock(mutex_);
      while (static_cast<int>(helpers_.size()) < threads - 1) {
        helpers_.emplace_back([this](const std::stop_token& stop) { help(stop); });
      }
      tasks_.push_back(&task);
    }
    for (int i = 1; i < threads; ++i) wake_.notify_one();
    work(0);
    std::unique_lock lock(mutex_);
    std::erase(tasks_, &task);
    task.left.wait(lock, [&] { return task.helpers == 0; });
  }

 private:
  struct Task {
    const std::function<void(int)>* work;
    int threads;
    int next = 1;     // number for the next helper
    int helpers = 0;  // helpers that work on it
    std::condition_variable left = {};
  };

  void help(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return !tasks_.empty(); })) {
      Task& task = *tasks_.front();
      const int thread = task.next++;
      if (task.next == task.threads) tasks_.pop_front();
      ++task.helpers;
      lock.unlock();
      (*task.work)(thread);
      lock.lock();
      if (--task.helpers == 0) task.left.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Task*> tasks_;            // tasks that can take more helpers
  std::vector<std::jthread> helpers_;  // last member, so that they stop before the other members
                                       // are destroyed
};

// A child of fork has none of its parent's threads, so it gets its own pool. The inherited pool is
// left alone, because destroying it would wait for those threads.
std::unique_ptr<Pool> the_pool;

Pool& pool() {
  static const bool made = [] {
    the_pool = std::make_unique<Pool>();
    pthread_atfork(nullptr, nullptr, [] {
      static_cast<void>(the_pool.release());
      the_pool = std::make_unique<Pool>();
    });
    return true;
  }();
  static_cast<void>(made);
  return *the_pool;
}

}  // namespace

int hardware_threads() {
  if (const char* text = std::getenv("FA_THREADS")) {
    const long threads = std::strtol(text, nullptr, 10);
    if (threads >= 1 && threads <= 1024) return static_cast<int>(threads);
  }
#ifdef __linux__
  cpu_set_t available;  // fewer than the machine's inside a container
  if (sched_getaffinity(0, sizeof available, &available) == 0) return CPU_COUNT(&available);
#endif
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
      next = count;  // the other threads stop after their current piece
      const std::lock_guard lock(error_mutex);
      if (!first_error) first_error = std::current_exception();
    }
  };
  if (threads > 1) {
    pool().run(threads, take_pieces);
  } else {
    take_pieces(0);
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace fa
