#pragma once
// Admission decides how many waiting requests may start.

#include <vector>

#include "exercises/support/todo.hpp"

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
  exercise::todo("TODO(24.2): start requests in order while the four rules allow it");
}
