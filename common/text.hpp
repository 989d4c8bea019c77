#pragma once
// Formats like printf into a std::string.

#include <cstdarg>
#include <cstdio>
#include <string>

namespace fa {

[[gnu::format(printf, 1, 2)]] inline std::string text(const char* format, ...) {
  char line[640];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

}  // namespace fa
