// Formats tables of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ch18 {

using Row = std::vector<std::string>;

// Returns rows under a heading (the first row), in columns of equal width in characters. All
// columns except the first `left` are right-aligned. A cell may have several lines.
std::string table(const std::vector<Row>& cells, std::size_t left = 1);

// Returns the text in lines of at most `width` characters, unless a word has more.
std::string folded(std::string text, std::size_t width);

std::string count(std::int64_t number);         // 16,936
std::string fixed(double value, int decimals);  // "-" for a NaN
std::string percent(double share);              // 20.1 %

}  // namespace ch18
