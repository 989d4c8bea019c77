#pragma once

#include <algorithm>

struct Multiprocessor {
  int shared_bytes;
  int threads;
  int registers = 65536;
};

struct Kernel {
  int shared_bytes;
  int threads;
  int registers;
};

inline int blocks_per_sm(const Multiprocessor& sm, const Kernel& kernel) {
  const int by_shared = sm.shared_bytes / (kernel.shared_bytes + 1024);
  const int by_threads = sm.threads / kernel.threads;
  return std::min({by_shared, by_threads});
}
