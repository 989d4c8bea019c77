#pragma once
// The pool from which 11.5 takes pages.

#include <vector>

constexpr int NO_PAGE = -1;

// Pages 0 to pages - 1, each free or in use. Counts what must not happen.
class Pool {
 public:
  explicit Pool(int pages) : in_use_(pages) {}

  // Returns a free page, or NO_PAGE if none is free.
  int take() {
    for (int page = 0; page < static_cast<int>(in_use_.size()); ++page) {
      if (in_use_[page]) continue;
      in_use_[page] = true;
      return page;
    }
    return NO_PAGE;
  }
  // Giving back a page that is not in use is a mistake, because another sequence may have it.
  void give_back(int page) {
    if (page < 0 || page >= static_cast<int>(in_use_.size()) || !in_use_[page]) {
      ++mistakes_;
      return;
    }
    in_use_[page] = false;
  }

  int free_pages() const {
    int count = 0;
    for (const bool used : in_use_) count += !used;
    return count;
  }
  int mistakes() const { return mistakes_; }

 private:
  std::vector<bool> in_use_;
  int mistakes_ = 0;
};

// Token t is in pages[t / page_size].
struct Sequence {
  std::vector<int> pages;
  int length = 0;  // tokens
};
