#pragma once
// Which numbers share a scale, for host and kernels.

namespace ch17 {

// --scales: how much of Q, and of K, has one scale.
enum Scales : int { PER_HEAD = 1, PER_BLOCK = 2, PER_WARP = 3, PER_THREAD = 4 };

// The scale of row r of a head is number r / tile * of_a_tile + r % 8 / alike.
struct Groups {
  int tile;       // rows
  int of_a_tile;  // scales
  int alike;      // neighbours among 8 rows that one thread has
};

}  // namespace ch17
