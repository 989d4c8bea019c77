#pragma once
// Distributes independent work over the machine's threads.

#include <cstdint>
#include <functional>

namespace fa {

// Returns the number of threads that this process may use, which is FA_THREADS if set (1 to 1024),
// otherwise the number of available cores.
int hardware_threads();

// Calls work(index, thread) for every index in [0, count), on up to `threads` threads (0 means
// all). `thread` is in [0, threads), and no two concurrent calls have the same number. The first
// exception is rethrown after all threads have stopped. The threads are kept for the next call.
// While they are busy with another call (from another thread, or an enclosing one), the caller
// executes more of the work itself.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t, int)>& work);

}  // namespace fa
