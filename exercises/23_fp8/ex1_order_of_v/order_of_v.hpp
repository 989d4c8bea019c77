#pragma once
// P stays where it is, and V comes to it.

#include "exercises/support/todo.hpp"

// P [16, 32] and V [32, 8] in 8 bits, for mma.m16n8k32. P is packed in the order of its scores, so
// that a lane's registers of A are filled with the elements that it has, tile after tile. Returns
// the key of the row of V that must be in `slot`, 0 to 31, so that the product is P @ V.
inline int key_at(int slot) {
  exercise::todo("TODO(23.1): which key's weight is multiplied in this slot?");
}
