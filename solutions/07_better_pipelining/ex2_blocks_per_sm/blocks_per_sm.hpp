#pragma once
// The smallest of the three numbers decides, because a block needs all three resources at once. The
// numbers are whole, because half a block does not run. So one more register per thread may cost a
// whole block, or nothing.

#include <algorithm>

struct Multiprocessor {
  int shared_bytes;
  int threads;
  int registers = 65536;
};

struct Kernel {
  int shared_bytes;  // bytes per block, or 0
  int threads;       // per block
  int registers;     // per thread
};

inline int blocks_per_sm(const Multiprocessor& sm, const Kernel& kernel) {
  const int registers = (kernel.registers + 7) / 8 * 8;
  const int by_shared = sm.shared_bytes / (kernel.shared_bytes + 1024);
  const int by_registers = sm.registers / (registers * kernel.threads);
  const int by_threads = sm.threads / kernel.threads;
  return std::min({by_shared, by_registers, by_threads});
}
