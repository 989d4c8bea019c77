#include "common/simt/overflow.hpp"

#include <signal.h>

#include <memory>
#include <mutex>

#include "common/simt/block.hpp"

namespace fa::simt {

#if defined(FA_SIMT_ASAN) || defined(FA_SIMT_TSAN)  // they have a handler of their own

void catch_stack_overflows() {}

#else

namespace {

struct sigaction previous;

// Runs on a stack of its own: the thread's is full. Leaving it by a switch of stacks is all right;
// the system notices that the signal stack is free again.
void on_fault(int signal, siginfo_t* fault, void*) {
  Thread* const thread = running_thread;
  if (thread != nullptr && thread->block->stacks().is_overflow(fault->si_addr)) {
    thread->block->end_by_overflow(*thread);
  }
  sigaction(signal, &previous, nullptr);  // the instruction faults again, as if we were not here
}

// The signal stack of a CPU thread.
class SignalStack {
 public:
  void use() {
    stack_t stack = {};
    stack.ss_sp = memory_.get();
    stack.ss_size = kBytes;
    sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }

 private:
  static constexpr size_t kBytes = 64 * 1024;
  std::unique_ptr<char[]> memory_{new char[kBytes]};
};

}  // namespace

// Asked for at each block: others, like a test framework, set handlers too.
void catch_stack_overflows() {
  stack_t stack = {};
  sigaltstack(nullptr, &stack);
  if ((stack.ss_flags & SS_DISABLE) != 0) {
    static thread_local SignalStack own;
    own.use();
  }
  struct sigaction current = {};
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  sigaction(SIGSEGV, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_fault) return;
  previous = current;
  current = {};
  current.sa_sigaction = on_fault;
  current.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &current, nullptr);
}

#endif

}  // namespace fa::simt
