#pragma once

// P [16, 32] and V [32, 8] in 8 bits, for mma.m16n8k32. P is packed as its scores lie: a lane's
// registers of A are filled with what it has, tile after tile. Returns the key whose row of V has
// to stand in `slot`, 0 to 31, so that the product is P @ V.
inline int key_at(int slot) {
  const int half = slot / 16, tile = slot % 16 / 8, lane = slot % 8 / 2;
  return half * 16 + lane * 4 + tile * 2 + slot % 2;
}
