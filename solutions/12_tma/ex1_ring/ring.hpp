#pragma once
// The producer of pass r waits for the readers of pass r - 1, and r - 1 and r + 1 have the same
// last bit. In pass 0 this bit is 1, and a new mbarrier lets a wait for parity 1 return.

// Tiles are 0, 1, 2, … The ring has `stages` buffers, one or more. Each buffer has two mbarriers,
// full[buffer] and empty[buffer]. A parity is 0 or 1.

// Returns the buffer, 0 to stages - 1, that receives tile `tile`. Tile 0 goes to buffer 0.
inline int buffer_of(int tile, int stages) { return tile % stages; }

// Returns the parity for the consumer's mbarrier_wait(full[buffer], parity) before it reads a tile.
inline int full_parity(int tile, int stages) { return tile / stages % 2; }

// Returns the parity for the producer's mbarrier_wait(empty[buffer], parity) before it fills the
// buffer with a tile. In the first pass no consumer has read anything yet, and the wait must return
// immediately.
inline int empty_parity(int tile, int stages) { return (tile / stages + 1) % 2; }
