#pragma once
// Copies and products do not count. A loader arrives once for all copies that it issues, and a
// consumer arrives once per tile, after the tensor cores have read the tile for the last time.

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
inline int full_count(const Cast& cast) { return cast.loaders; }

// mbarrier_init(empty, empty_count(cast)).
inline int empty_count(const Cast& cast) { return cast.consumers * (cast.each_warp ? 4 : 1); }

// Returns whether a thread of a consumer arrives at empty now. Each of them calls this after its
// wgmma_wait for product `product`, 0 to products - 1, of each tile. `thread` is thread_index(),
// which is 128 or more, because warpgroup 0 is the producer.
inline bool arrives(const Cast& cast, int thread, int product) {
  return thread % (cast.each_warp ? 32 : 128) == 0 && product == cast.products - 1;
}
