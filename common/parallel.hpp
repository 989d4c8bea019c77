#pragma once
// Independent pieces of work over the machine's threads.

#include <cstdint>
#include <functional>

namespace fa {

// Threads this process may use: FA_THREADS if set (1 to 1024), else the number of available cores.
int hardware_threads();

// Calls work(index, thread) for every index in [0, count), on up to `threads` threads (0: all);
// `thread` is in [0, threads), and no two work under the same number at once. The first exception
// is rethrown after all threads have stopped. The threads stay for the next call; while they are
// busy with another one (from another thread, or around this one), the caller does more itself.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t, int)>& work);

}  // namespace fa
