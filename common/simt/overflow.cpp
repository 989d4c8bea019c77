#include "common/simt/overflow.hpp"

#include <signal.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

#include <memory>
#include <mutex>

#include "common/simt/block.hpp"

namespace fa::simt {

#if defined(FA_SIMT_ASAN) || defined(FA_SIMT_TSAN)  // the sanitizers install their own handlers

void catch_stack_overflows() {}
LoopWatch::LoopWatch() = default;
LoopWatch::~LoopWatch() = default;

#else

namespace {

struct sigaction previous;

// Runs on a separate stack, because the thread's stack is full. It may leave this stack by a switch
// of stacks, because the system notices that the signal stack is free again.
void on_fault(int signal, siginfo_t* fault, void*) {
  Thread* const thread = running_thread;
  if (thread != nullptr && thread->block->stacks().is_overflow(fault->si_addr)) {
    thread->block->end_by_overflow(*thread);
  }
  sigaction(signal, &previous, nullptr);  // the instruction faults again and reaches the previous
                                          // handler
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

// Called for each block, because others, such as a test framework, install handlers as well.
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

#ifdef __linux__

namespace {

constexpr int kMostTicks = 5;  // number of ticks at one place that end a thread
constexpr int kTick = SIGVTALRM;

struct Progress {
  const Thread* thread = nullptr;
  int64_t step = 0;
  int ticks = 0;  // number of ticks that found the thread at this step
};
thread_local Progress progress;

void on_tick(int, siginfo_t*, void*) {
  Thread* const thread = running_thread;
  const int64_t step = thread != nullptr ? event_step(*thread) : 0;
  if (thread == nullptr || thread != progress.thread || step != progress.step) {
    progress = {thread, step, 0};
  } else if (++progress.ticks == kMostTicks) {
    progress = {};
    thread->block->end_by_loop(*thread, loop_limit_ms);
  }
}

}  // namespace

LoopWatch::LoopWatch() {
  struct sigaction action = {};
  action.sa_sigaction = on_tick;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  sigaction(kTick, &action, nullptr);
  progress = {};
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kTick;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer = {};
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0) return;
  itimerspec every = {};
  const int ms = loop_limit_ms / kMostTicks;
  every.it_interval = {ms / 1000, ms % 1000 * 1'000'000L};
  every.it_value = every.it_interval;
  timer_settime(timer, 0, &every, nullptr);
  timer_ = std::shared_ptr<timer_t>(new timer_t(timer), [](timer_t* made) {
    timer_delete(*made);
    delete made;
  });
}

LoopWatch::~LoopWatch() = default;

#else

LoopWatch::LoopWatch() = default;
LoopWatch::~LoopWatch() = default;

#endif

#endif

}  // namespace fa::simt
