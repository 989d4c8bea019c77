// Formulas for the content of a register, for example a00·b00 + a01·b10.
#pragma once

#include <string>

namespace ch01 {

// A formula and the precedence of its outermost operation, which decides where parentheses are
// needed.
struct Symbol {
  enum Binding { kSum, kProduct, kAtom };
  std::string text;
  Binding binding = kAtom;
};

Symbol add(const Symbol& a, const Symbol& b);       // a + b
Symbol subtract(const Symbol& a, const Symbol& b);  // a − b
Symbol multiply(const Symbol& a, const Symbol& b);  // a·b
Symbol divide(const Symbol& a, const Symbol& b);    // a/b
Symbol maximum(const Symbol& a, const Symbol& b);   // max(a, b, …)
Symbol exponential(const Symbol& a);                // e^a, e^(a − b)

// Returns a number as tables and messages show it, with six digits, integers in full, NaN, Inf.
std::string number_text(double value);

// Returns the width on the screen, which is the number of UTF-8 code points.
int width_of(const std::string& text);

// Returns the formula in at most `width` characters. A long sum keeps its first and last terms.
std::string shortened(const std::string& text, int width);

}  // namespace ch01
