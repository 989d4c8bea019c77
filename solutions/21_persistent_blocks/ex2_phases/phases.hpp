#pragma once
// A buffer's phase ends with each tile that lands in it, and an mbarrier never starts again. Within
// a tile of queries, n / 2 tiles have been in a buffer before the n-th. Of the tiles before that
// tile of queries, it only matters whether their number was even.

// Bit b of `used` is the parity of the phase that the next tile in buffer b completes. Both are 0
// at first. Every tile of queries begins in buffer 0, so its n-th tile of keys is in buffer n % 2.

// Returns the parity, 0 or 1, that a consumer waits for before it reads the n-th tile of keys of
// the current tile of queries. `used` is from before that tile of queries.
inline unsigned parity(unsigned used, int n) {
  const unsigned before = used >> n % 2 & 1;
  return before ^ (n / 2 % 2);
}

// Returns `used` after a tile of queries with `count` tiles of keys.
inline unsigned use(unsigned used, int count) {
  const unsigned in_0 = (count + 1) / 2, in_1 = count / 2;
  return used ^ (in_0 % 2 | in_1 % 2 << 1);
}
