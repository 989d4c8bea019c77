#pragma once
// The memory of 20.3, whose ends are watched.

#include <cstdint>
#include <vector>

// `size` numbers, all -1 until they are written. Reads outside of them return -1, and writes there
// are lost. Both are recorded.
class Memory {
 public:
  explicit Memory(int64_t size) : numbers_(size, NOTHING) {}
  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }

  float& operator[](int64_t i) {
    if (inside(i)) return numbers_[i];
    nowhere_ = NOTHING;
    return nowhere_;
  }
  float operator[](int64_t i) const { return inside(i) ? numbers_[i] : NOTHING; }

  bool left() const { return left_; }  // was something outside of it read or written?

 private:
  static constexpr float NOTHING = -1;
  bool inside(int64_t i) const {
    if (i >= 0 && i < size()) return true;
    left_ = true;
    return false;
  }

  std::vector<float> numbers_;
  float nowhere_ = NOTHING;
  mutable bool left_ = false;
};
