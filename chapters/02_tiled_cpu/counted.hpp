#pragma once
// A number type that counts its operations. As the Real of an algorithm in ladder.hpp it measures
// that algorithm without a change to it.

#include <cmath>
#include <cstdint>

namespace ch02 {

struct Operations {
  int64_t adds = 0, multiplies = 0, divides = 0, exps = 0;
};

struct Counted {
  double value = 0;
  static inline Operations done;  // of all Counted numbers since the last reset to {}

  Counted() = default;
  Counted(double number) : value(number) {}

  Counted operator-() const { return -value; }
  Counted& operator+=(Counted b) { return *this = *this + b; }
  Counted& operator*=(Counted b) { return *this = *this * b; }
  friend Counted operator+(Counted a, Counted b) { return ++done.adds, a.value + b.value; }
  friend Counted operator-(Counted a, Counted b) { return ++done.adds, a.value - b.value; }
  friend Counted operator*(Counted a, Counted b) { return ++done.multiplies, a.value * b.value; }
  friend Counted operator/(Counted a, Counted b) { return ++done.divides, a.value / b.value; }
  friend bool operator<(Counted a, Counted b) { return a.value < b.value; }
  friend bool operator==(Counted a, Counted b) { return a.value == b.value; }
  friend Counted exp(Counted x) { return ++done.exps, std::exp(x.value); }
  friend Counted log(Counted x) { return std::log(x.value); }
};

}  // namespace ch02
