// Tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ch18 {

using Row = std::vector<std::string>;

// Rows under a heading (the first row), in columns of equal width counted in characters; all but
// the first `left` columns are right-aligned.
std::string table(const std::vector<Row>& rows, std::size_t left = 1);

std::string count(std::int64_t number);         // 16,936
std::string fixed(double value, int decimals);  // "-" for a NaN
std::string percent(double share);              // 20.1 %

}  // namespace ch18
