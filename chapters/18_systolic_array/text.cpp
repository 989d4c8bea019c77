#include "text.hpp"

#include <algorithm>
#include <cmath>

#include "common/text.hpp"

namespace ch18 {
namespace {

std::size_t width_of(const std::string& text) {  // characters, not bytes
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string table(const std::vector<Row>& rows, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string space(widths[i] - width_of(rows[r][i]), ' ');
      line += (i ? " │ " : "") + (i < left ? rows[r][i] + space : space + rows[r][i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r > 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      text += i ? "─┼─" : "";
      for (std::size_t w = 0; w < widths[i]; ++w) text += "─";
    }
    text += "\n";
  }
  return text;
}

std::string count(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string fixed(double value, int decimals) {
  if (std::isnan(value)) return "-";
  return fa::text("%.*f", decimals, value);
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

}  // namespace ch18
