#pragma once
// Pages of a cache that several sequences can hold.

#include <vector>

#include "exercises/support/todo.hpp"

constexpr int NO_PAGE = -1;

struct SharedPages {
  std::vector<int> holders;  // number of holders of each page
  std::vector<int> free;     // pages without a holder, of which the first is taken next
};

// Returns the page that has been free for the longest time, with one holder. NO_PAGE if none is
// free.
inline int take(SharedPages& pages) {
  exercise::todo("TODO(24.1): take the first free page, share a page, release a page");
}

// Adds a holder to a page, which may be free.
inline void share(SharedPages& pages, int page) {
  exercise::todo("TODO(24.1): take the first free page, share a page, release a page");
}

// Removes a holder from a page that has one.
inline void release(SharedPages& pages, int page) {
  exercise::todo("TODO(24.1): take the first free page, share a page, release a page");
}
