#pragma once
// A page stays free for each running request. Otherwise the request that started last would soon
// have to give its pages back, and its prompt would have been computed for nothing.

#include <vector>

struct Waiting {
  int tokens;      // tokens of the request so far
  int found;       // full pages that already have the K and V of its first tokens
  int found_free;  // those of them that are free
};

// Returns how many of the waiting requests, in their order, may start. `free` is the number of
// free pages, `running` that of requests that run already, and `batch` the largest number of
// requests that may run.
inline int may_start(const std::vector<Waiting>& waiting, int free, int running, int batch,
                     int page_size) {
  int started = 0;
  for (const Waiting& one : waiting) {
    const int pages = (one.tokens + 1 + page_size - 1) / page_size;
    const int leaves = pages - one.found + one.found_free;  // from the free list
    if (running >= batch || leaves + running > free) break;
    free -= leaves;
    ++running;
    ++started;
  }
  return started;
}
