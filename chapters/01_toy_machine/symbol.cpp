#include "symbol.hpp"

#include <cmath>

#include "common/text.hpp"

namespace ch01 {
namespace {

constexpr std::size_t kLongest = 400;  // bytes, because doubling a value would exhaust memory

std::string in_parentheses(const Symbol& s, Symbol::Binding needed) {
  return s.binding < needed ? "(" + s.text + ")" : s.text;
}

Symbol made(std::string text, Symbol::Binding binding) {
  if (text.size() > kLongest) return {shortened(text, 60), Symbol::kAtom};
  return {std::move(text), binding};
}

// Returns the first `count` characters, or the last ones if `from_end`.
std::string cut(const std::string& text, int count, bool from_end) {
  const int skip = from_end ? width_of(text) - count : 0;
  std::string kept;
  int at = -1;
  for (const char c : text) {
    at += (c & 0xC0) != 0x80;
    if (at >= skip && at < skip + count) kept += c;
  }
  return kept;
}

}  // namespace

Symbol add(const Symbol& a, const Symbol& b) { return made(a.text + " + " + b.text, Symbol::kSum); }

Symbol subtract(const Symbol& a, const Symbol& b) {
  return made(a.text + " − " + in_parentheses(b, Symbol::kProduct), Symbol::kSum);
}

Symbol multiply(const Symbol& a, const Symbol& b) {
  return made(in_parentheses(a, Symbol::kProduct) + "·" + in_parentheses(b, Symbol::kProduct),
              Symbol::kProduct);
}

Symbol divide(const Symbol& a, const Symbol& b) {
  return made(in_parentheses(a, Symbol::kProduct) + "/" + in_parentheses(b, Symbol::kAtom),
              Symbol::kProduct);
}

Symbol maximum(const Symbol& a, const Symbol& b) {
  // max(max(x0, x1), x2) is shown as max(x0, x1, x2)
  const auto list = [](const Symbol& s) {
    const bool is_max = s.text.starts_with("max(") && s.text.find(')') == s.text.size() - 1;
    return is_max ? s.text.substr(4, s.text.size() - 5) : s.text;
  };
  return made("max(" + list(a) + ", " + list(b) + ")", Symbol::kAtom);
}

Symbol exponential(const Symbol& a) {
  return made("e^" + in_parentheses(a, Symbol::kAtom), Symbol::kAtom);
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
  const bool whole = value == std::floor(value) && std::abs(value) < 1e9;
  return fa::text(whole ? "%.0f" : "%.6g", value);
}

int width_of(const std::string& text) {
  int width = 0;
  for (const char c : text) width += (c & 0xC0) != 0x80;
  return width;
}

std::string shortened(const std::string& text, int width) {
  if (width_of(text) <= width) return text;
  const std::size_t first = text.find(" + "), last = text.rfind(" + ");
  if (first != std::string::npos && first != last) {
    std::string ends = text.substr(0, first) + " + …" + text.substr(last);
    if (width_of(ends) <= width) return ends;
  }
  return cut(text, width / 2, false) + "…" + cut(text, width - width / 2 - 1, true);
}

}  // namespace ch01
