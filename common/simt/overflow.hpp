#pragma once
// A kernel that exceeds its stack, or loops without end and without an instruction, ends with a
// sentence.

#include <atomic>

namespace fa::simt {

/// From now on, on this CPU thread. Does nothing where there are no signals.
void catch_stack_overflows();

/// CPU time that a thread of a kernel may take without beginning an instruction.
inline std::atomic<int> loop_limit_ms = 10'000;

/// While it lives: a thread of a kernel on this CPU thread that takes longer than that ends its
/// launch. Needs Linux; elsewhere it does nothing.
class LoopWatch {
 public:
  LoopWatch();
  ~LoopWatch();
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

 private:
  [[maybe_unused]] void* timer_ = nullptr;
};

}  // namespace fa::simt
