#pragma once
// The pages are counted from the length. Therefore nothing has to be remembered between two calls,
// and a sequence that exactly fills its last page takes no other. A sequence gets all pages that it
// needs or none. Otherwise two sequences could each keep half of the pool and wait for more
// forever.

#include "exercises/11_decoding/pool.hpp"

// Makes room for `tokens` more tokens, 0 or more, and counts them. False if the pool has too few
// pages. Then the sequence and the pool are unchanged, and the call may be repeated later.
inline bool grow(Sequence& sequence, int tokens, int page_size, Pool& pool) {
  const int length = sequence.length + tokens;
  const int pages = (length + page_size - 1) / page_size;
  const int missing = pages - static_cast<int>(sequence.pages.size());
  if (missing > pool.free_pages()) return false;
  for (int i = 0; i < missing; ++i) sequence.pages.push_back(pool.take());
  sequence.length = length;
  return true;
}

// The sequence has no tokens any more. It may grow again, and it may be ended twice.
inline void end_sequence(Sequence& sequence, Pool& pool) {
  for (const int page : sequence.pages) pool.give_back(page);
  sequence.pages.clear();
  sequence.length = 0;
}
