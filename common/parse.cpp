#include "common/parse.hpp"

#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>

#include "common/error.hpp"

namespace fa {
namespace {

template <class T>
bool parse_whole(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

#ifndef __cpp_lib_to_chars  // libc++ before version 20 reads no floating-point numbers so
template <>
bool parse_whole(const std::string& text, double& value) {
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  return stream >> std::noskipws >> value &&
         stream.peek() == std::istringstream::traits_type::eof();
}
#endif

}  // namespace

std::string shown(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

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

}  // namespace fa
