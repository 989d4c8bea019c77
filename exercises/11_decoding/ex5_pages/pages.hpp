#pragma once
// The pages of a cache: who has which.

#include <vector>

#include "exercises/support/todo.hpp"

constexpr int PAGE_SIZE = 4;  // tokens

struct Sequence {
  std::vector<int> pages;  // in order
  int length = 0;          // tokens
};

// Makes room for `tokens` more tokens. Takes new pages from the end of `free_pages`, as many as are
// needed and no more. False if there are too few, and then nothing has changed.
inline bool append(Sequence& sequence, int tokens, std::vector<int>& free_pages) {
  exercise::todo("TODO(11.5): take the pages that are needed, or none; and give them back");
}

// The sequence ends: its pages go behind the others that are free, its last page first. It has no
// tokens then.
inline void release(Sequence& sequence, std::vector<int>& free_pages) {
  exercise::todo("TODO(11.5): take the pages that are needed, or none; and give them back");
}
