#pragma once
// Numbers in text, strictly: no saturation, no trailing text, no NaN.

#include <cstdint>
#include <string>
#include <string_view>

namespace fa {

// A whole number in [minimum, maximum], nothing before or after it. Throws InputError naming
// `what`.
int64_t parse_integer(const std::string& text, const std::string& what, int64_t minimum,
                      int64_t maximum);
// A finite number, likewise.
double parse_real(const std::string& text, const std::string& what);
// The text without a byte-order mark in front of it. Throws InputError, naming `what`, if the mark
// is that of UTF-16.
std::string_view without_byte_order_mark(std::string_view text, const std::string& what);
// What the user gave, at most 60 characters of it: for error messages.
std::string shown(const std::string& text);
// With as few digits as tell it from its neighbours.
std::string shown(double number);
std::string shown(float number);

}  // namespace fa
