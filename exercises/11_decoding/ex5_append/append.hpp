#pragma once
// A sequence grows and ends. Its pages come from a pool that others use as well.

#include "exercises/11_decoding/pool.hpp"
#include "exercises/support/todo.hpp"

// Makes room for `tokens` more tokens, 0 or more, and counts them. False if the pool has too few
// pages. Then the sequence and the pool are unchanged, and the call may be repeated later.
inline bool grow(Sequence& sequence, int tokens, int page_size, Pool& pool) {
  exercise::todo("TODO(11.5): take what is missing, all or nothing");
}

// The sequence has no tokens any more. It may grow again, and it may be ended twice.
inline void end_sequence(Sequence& sequence, Pool& pool) {
  exercise::todo("TODO(11.5): give back what the sequence has");
}
