#pragma once
// Lane t holds columns 2t and 2t + 1 of each tile of eight keys. It fills slots 4t to 4t + 3 of
// either half with two numbers of the half's first tile, then two of its second.

// P [16, 32] and V [32, 8] in 8 bits, for mma.m16n8k32. P is packed in the order of its scores, so
// that a lane's registers of A are filled with the elements that it has, tile after tile. Returns
// the key of the row of V that must be in `slot`, 0 to 31, so that the product is P @ V.
inline int key_at(int slot) {
  const int half = slot / 16, lane = slot % 16 / 4, tile = slot % 4 / 2;
  return half * 16 + tile * 8 + lane * 2 + slot % 2;
}
