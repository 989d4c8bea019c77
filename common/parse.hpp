#pragma once
// Parses numbers strictly, with no saturation, no trailing text, no NaN.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa {

// Returns a whole number in [minimum, maximum], with no other text around it. Otherwise throws an
// InputError that names `what`.
int64_t parse_integer(const std::string& text, const std::string& what, int64_t minimum,
                      int64_t maximum);
// Returns a finite number. Otherwise throws an InputError that names `what`.
double parse_real(const std::string& text, const std::string& what);
// Returns the parts of a text between its commas.
std::vector<std::string> split_at_commas(const std::string& text);
// Returns the text without its byte-order mark. Throws an InputError that names `what` if the mark
// is that of UTF-16.
std::string_view without_byte_order_mark(std::string_view text, const std::string& what);
// Returns at most 60 characters of what the user gave, for error messages.
std::string shown(const std::string& text);
// Returns the shortest decimal that identifies the number.
std::string shown(double number);
std::string shown(float number);

}  // namespace fa
