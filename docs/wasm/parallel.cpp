// Implements common/parallel.hpp with a single thread.
#include "common/parallel.hpp"

namespace fa {

int hardware_threads() { return 1; }

void parallel_for(int64_t count, int, const std::function<void(int64_t, int)>& work) {
  for (int64_t index = 0; index < count; ++index) work(index, 0);
}

}  // namespace fa
