#pragma once
// l never receives the sum of the first try, so that sum may be anything. l and O are relative to
// the old m, and one factor corrects them once, before the tile is added. The good row takes the
// same path. Its factor is 1, or its m is raised a little, and both results are right.

#include <algorithm>
#include <cmath>
#include <limits>

constexpr int ROWS = 2, KEYS = 4, DIM = 2;
constexpr float NEG_INF = -std::numeric_limits<float>::infinity();
constexpr float LIMIT = 0x1p50f;  // a sum is good enough if it is less

struct Row {
  float m = NEG_INF;   // the subtracted number, never above the row's largest score
  float l = 0;         // sum of exp(s - m)
  float O[DIM] = {0};  // sum of exp(s - m) V
};

struct Tile {
  float V[KEYS][DIM];

  // S = the scores of the tile, of both rows, which is a product. Its calls are counted.
  void scores(float (&S)[ROWS][KEYS]) const;
  float known[ROWS][KEYS];  // what it returns, not for you
  mutable int calls = 0;
};

inline float subtrahend(float m) { return m == NEG_INF ? 0.0f : m; }

// S = exp(S - minus); returns the sum.
inline float exponentiate(float (&S)[KEYS], float minus) {
  float sum = 0;
  for (float& s : S) {
    s = std::exp(s - minus);
    sum += s;
  }
  return sum;
}

// Adds the tile to both rows, which belong to one warp.
inline void step_on_demand(Row (&rows)[ROWS], const Tile& tile) {
  float S[ROWS][KEYS], sum[ROWS];
  tile.scores(S);
  bool again = false;
  for (int row = 0; row < ROWS; ++row) {
    sum[row] = exponentiate(S[row], rows[row].m);
    again |= !(sum[row] < LIMIT);
  }
  if (again) {
    tile.scores(S);
    for (int row = 0; row < ROWS; ++row) {
      Row& r = rows[row];
      const float m_old = r.m;
      for (const float s : S[row]) r.m = std::max(r.m, s);
      const float rescale = std::exp(m_old - subtrahend(r.m));
      r.l *= rescale;
      for (float& o : r.O) o *= rescale;
      sum[row] = exponentiate(S[row], subtrahend(r.m));
    }
  }
  for (int row = 0; row < ROWS; ++row) {
    rows[row].l += sum[row];
    for (int key = 0; key < KEYS; ++key)
      for (int d = 0; d < DIM; ++d) rows[row].O[d] += S[row][key] * tile.V[key][d];
  }
}
