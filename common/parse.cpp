#include "common/parse.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/error.hpp"

namespace fa {
namespace {

template <class T>
bool parse_whole(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

#ifndef __cpp_lib_to_chars  // libc++ before version 20 has no from_chars for floating-point numbers
// strtod accepts more than from_chars: "inf", "0x1", " 1", "+1". No program sets a locale.
template <>
bool parse_whole(const std::string& text, double& value) {
  if (text.find_first_not_of("0123456789+-.eE") != std::string::npos || text.starts_with('+'))
    return false;
  char* stopped = nullptr;
  value = std::strtod(text.c_str(), &stopped);
  return !text.empty() && stopped == text.c_str() + text.size();
}
#endif

}  // namespace

std::string shown(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

template <class Real>
std::string shortest(Real number) {
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(number));
    if (static_cast<Real>(std::strtod(text, nullptr)) == number) break;
  }
  return text;
}
std::string shown(double number) { return shortest(number); }
std::string shown(float number) { return shortest(number); }

int64_t parse_integer(const std::string& text, const std::string& what, int64_t minimum,
                      int64_t maximum) {
  int64_t value = 0;
  if (!parse_whole(text, value) || value < minimum || value > maximum) {
    throw InputError(what + " " + shown(text) + ": expected a whole number from " +
                     std::to_string(minimum) + " to " + std::to_string(maximum));
  }
  return value;
}

double parse_real(const std::string& text, const std::string& what) {
  double value = 0;
  if (!parse_whole(text, value) || !std::isfinite(value)) {
    throw InputError(what + " " + shown(text) + ": expected a finite number, such as 0.125");
  }
  return value;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string_view without_byte_order_mark(std::string_view text, const std::string& what) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw InputError(what + ": is text in UTF-16; save it as UTF-8");
  }
  constexpr std::string_view MARK = "\xef\xbb\xbf";
  return text.starts_with(MARK) ? text.substr(MARK.size()) : text;
}

}  // namespace fa
