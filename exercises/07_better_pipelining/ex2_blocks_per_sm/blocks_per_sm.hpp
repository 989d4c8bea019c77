#pragma once
// How many blocks of a kernel run on one multiprocessor at the same time.

#include <algorithm>

#include "exercises/support/todo.hpp"

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
  exercise::todo("TODO(07.2): the smallest of three limits");
}
