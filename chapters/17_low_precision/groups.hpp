#pragma once
// Defines which elements share a scale, for host and kernels.

namespace ch17 {

// --scales selects the part of Q and of K that shares one scale.
enum Scales : int { PER_HEAD = 1, PER_BLOCK = 2, PER_WARP = 3, PER_THREAD = 4 };

// The scale of row r of a head has the index r / tile * of_a_tile + r % 8 / alike.
struct Groups {
  int tile;       // rows per tile
  int of_a_tile;  // scales per tile
  int alike;      // adjacent rows of 8 that one thread holds
};

}  // namespace ch17
