#pragma once
// Ends a kernel with a clear error if it overflows its stack, or loops forever without an
// instruction of the emulator.

#include <atomic>
#include <memory>

namespace fa::simt {

/// Installs the signal handler for this CPU thread. Does nothing where there are no signals.
void catch_stack_overflows();

/// CPU time that a CUDA thread may take without beginning an instruction, in milliseconds.
inline std::atomic<int> loop_limit_ms = 10'000;

/// While it exists, a CUDA thread on this CPU thread that exceeds loop_limit_ms ends its launch.
/// Needs Linux and does nothing elsewhere.
class LoopWatch {
 public:
  LoopWatch();
  ~LoopWatch();
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

 private:
  std::shared_ptr<void> timer_;
};

}  // namespace fa::simt
