#pragma once
// Random numbers whose whole state is one number, so that a checkpoint can store it.

#include <cstdint>

namespace fa::ch20 {

// SplitMix64 (Steele, Lea and Flood 2014).
struct Random {
  uint64_t state;

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Returns a number in [0, count). Smaller numbers are more likely, by at most count / 2^64.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(count));
  }
  // Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

// FNV-1a of bytes, which detects a file that has changed, but not one that was forged.
template <class Bytes>
uint64_t fingerprint(const Bytes& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace fa::ch20
