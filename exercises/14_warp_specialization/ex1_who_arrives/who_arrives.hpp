#pragma once
// Which threads arrive at full and at empty, and how many times.

#include "exercises/support/todo.hpp"

// The threads that use the buffers of a ring. Each buffer has one `full` and one `empty`, and a
// tile of K and one of V come to it together.
struct Cast {
  int loaders;     // threads of the producer. For each tile each of them waits at empty, expects
                   // the bytes of its copies at full, in one call, and issues them
  int copies;      // per loader and tile
  int consumers;   // warpgroups that multiply by the tile
  int products;    // per consumer and tile, one after the other, each followed by a
                   // wgmma_wait
  bool each_warp;  // which threads arrive for a consumer: the first thread of each of its warps;
                   // or, if false, the first thread of the warpgroup
};

// mbarrier_init(full, full_count(cast)).
inline int full_count(const Cast& cast) {
  exercise::todo("TODO(14.1): two counts, and the threads that arrive at empty");
}

// mbarrier_init(empty, empty_count(cast)).
inline int empty_count(const Cast& cast) {
  exercise::todo("TODO(14.1): two counts, and the threads that arrive at empty");
}

// Returns whether a thread of a consumer arrives at empty now. Each of them calls this after its
// wgmma_wait for product `product`, 0 to products - 1, of each tile. `thread` is thread_index(),
// which is 128 or more, because warpgroup 0 is the producer.
inline bool arrives(const Cast& cast, int thread, int product) {
  exercise::todo("TODO(14.1): two counts, and the threads that arrive at empty");
}
