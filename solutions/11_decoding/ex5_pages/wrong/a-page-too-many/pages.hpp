#pragma once

#include <vector>

constexpr int PAGE_SIZE = 4;  // tokens

struct Sequence {
  std::vector<int> pages;  // in order
  int length = 0;          // tokens
};

// Makes room for `tokens` more tokens. Takes new pages from the end of `free_pages`, as many as are
// needed and no more. False if there are too few, and then nothing has changed.
inline bool append(Sequence& sequence, int tokens, std::vector<int>& free_pages) {
  const int length = sequence.length + tokens;
  const size_t needed = length / PAGE_SIZE + 1;
  if (needed - sequence.pages.size() > free_pages.size()) return false;
  while (sequence.pages.size() < needed) {
    sequence.pages.push_back(free_pages.back());
    free_pages.pop_back();
  }
  sequence.length = length;
  return true;
}

// The sequence ends: its pages go behind the others that are free, its last page first. It has no
// tokens then.
inline void release(Sequence& sequence, std::vector<int>& free_pages) {
  while (!sequence.pages.empty()) {
    free_pages.push_back(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.length = 0;
}
