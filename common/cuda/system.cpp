// What the run-time library needs of Linux: the signals of a crash, and the free memory.
// Tests set EMUCUDA_LOOP_MS=N (how long a thread may compute without an instruction of the
// emulator).

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "common/cuda/runtime.hpp"
#include "common/simt/overflow.hpp"

namespace emucuda {

namespace {

void on_signal(int signal) {
  // The program cannot continue, so this handler takes the risk of writing the report itself.
  std::fflush(stdout);
  write_report(place_of_crash() + words_of_signal(signal));
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void report_crashes() {
  if (const char* ms = std::getenv("EMUCUDA_LOOP_MS"))
    fa::simt::loop_limit_ms = std::max(1, std::atoi(ms));
  static char stack_of_signals[64 * 1024];  // the program's own may have overflowed
  stack_t stack = {};
  stack.ss_sp = stack_of_signals;
  stack.ss_size = sizeof stack_of_signals;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;  // a kernel may have destroyed its thread's stack
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal, &action, nullptr);
}

size_t free_memory() {
  std::ifstream info("/proc/meminfo");
  size_t total = 0, free = std::numeric_limits<size_t>::max();
  for (std::string name, line; info >> name && std::getline(info, line);) {
    const size_t bytes = std::strtoull(line.c_str(), nullptr, 10) * 1024;
    if (name == "MemTotal:") total = bytes;
    if (name == "MemAvailable:") free = bytes;
  }
  return free - std::min(free, total / 8);
}

}  // namespace emucuda
