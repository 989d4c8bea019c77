#pragma once
// share searches the free list, because a page without a holder keeps its K and V until it is
// taken. release adds at the end, because the page that was used last has the best chance of being
// used again.

#include <vector>

constexpr int NO_PAGE = -1;

struct SharedPages {
  std::vector<int> holders;  // number of holders of each page
  std::vector<int> free;     // pages without a holder, of which the first is taken next
};

// Returns the page that has been free for the longest time, with one holder. NO_PAGE if none is
// free.
inline int take(SharedPages& pages) {
  if (pages.free.empty()) return NO_PAGE;
  const int page = pages.free.front();
  pages.free.erase(pages.free.begin());
  pages.holders[page] = 1;
  return page;
}

// Adds a holder to a page, which may be free.
inline void share(SharedPages& pages, int page) {
  if (pages.holders[page]++ > 0) return;
  std::erase(pages.free, page);
}

// Removes a holder from a page that has one.
inline void release(SharedPages& pages, int page) {
  if (--pages.holders[page] > 0) return;
  pages.free.push_back(page);
}
