#pragma once
// A float that counts what is computed from the scores of a row, for 08.1.

#include <algorithm>
#include <cmath>

namespace exercise {

// Operations of which an operand depends on a score. Others are computed once per row, because a
// compiler moves them out of the loop. Comparisons and signs are not counted.
struct Operations {
  int arithmetic = 0;  // + - * / and fma
  int exp2 = 0, exp = 0;
};

class [[maybe_unused]] Float {
 public:
  Float(float value = 0) : value_(value) {}  // NOLINT(google-explicit-constructor)
  static Float score(float value) { return {value, true}; }
  explicit operator float() const { return value_; }

  inline static Operations counted;

  friend Float operator-(Float a) { return {-a.value_, a.of_score_}; }
  friend Float operator+(Float a, Float b) { return arithmetic(a.value_ + b.value_, a, b); }
  friend Float operator-(Float a, Float b) { return arithmetic(a.value_ - b.value_, a, b); }
  friend Float operator*(Float a, Float b) { return arithmetic(a.value_ * b.value_, a, b); }
  friend Float operator/(Float a, Float b) { return arithmetic(a.value_ / b.value_, a, b); }
  Float& operator+=(Float b) { return *this = *this + b; }
  Float& operator-=(Float b) { return *this = *this - b; }
  Float& operator*=(Float b) { return *this = *this * b; }
  friend Float fma(Float a, Float b, Float c) {
    return arithmetic(std::fma(a.value_, b.value_, c.value_), a, b, c);
  }
  friend Float exp2(Float x) {
    counted.exp2 += x.of_score_;
    return {std::exp2(x.value_), x.of_score_};
  }
  friend Float exp(Float x) {
    counted.exp += x.of_score_;
    return {std::exp(x.value_), x.of_score_};
  }

  friend bool operator==(Float a, Float b) { return a.value_ == b.value_; }
  friend bool operator!=(Float a, Float b) { return a.value_ != b.value_; }
  friend bool operator<(Float a, Float b) { return a.value_ < b.value_; }
  friend bool operator>(Float a, Float b) { return a.value_ > b.value_; }
  friend bool operator<=(Float a, Float b) { return a.value_ <= b.value_; }
  friend bool operator>=(Float a, Float b) { return a.value_ >= b.value_; }
  friend bool isinf(Float x) { return std::isinf(x.value_); }
  friend bool isfinite(Float x) { return std::isfinite(x.value_); }
  friend Float fabs(Float x) { return {std::fabs(x.value_), x.of_score_}; }
  friend Float abs(Float x) { return fabs(x); }
  friend Float max(Float a, Float b) { return a < b ? b : a; }
  friend Float min(Float a, Float b) { return b < a ? b : a; }

 private:
  Float(float value, bool of_score) : value_(value), of_score_(of_score) {}
  static Float arithmetic(float value, Float a, Float b, Float c = {}) {
    const bool of_score = a.of_score_ || b.of_score_ || c.of_score_;
    counted.arithmetic += of_score;
    return {value, of_score};
  }

  float value_;
  bool of_score_ = false;
};

}  // namespace exercise
