#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "common/text.hpp"

namespace ch18 {
namespace {

std::size_t width_of(const std::string& text) {  // characters, not bytes
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Returns the lines of a row whose cells may have several. Those of a heading end together.
std::vector<Row> lines_of(const Row& row, bool heading) {
  std::vector<Row> cells;
  std::size_t height = 1;
  for (const std::string& cell : row) {
    std::istringstream text(cell);
    Row lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    height = std::max(height, lines.size());
    cells.push_back(lines);
  }
  std::vector<Row> found(height, Row(row.size()));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t first = heading ? height - cells[i].size() : 0;
    for (std::size_t l = 0; l < cells[i].size(); ++l) found[first + l][i] = cells[i][l];
  }
  return found;
}

}  // namespace

std::string folded(std::string text, std::size_t width) {
  for (std::size_t start = 0; width_of(text.substr(start)) > width;) {
    std::size_t end = start;
    for (std::size_t at = start; (at = text.find(' ', at)) != std::string::npos; ++at) {
      if (end > start && width_of(text.substr(start, at - start)) > width) break;
      end = at;
    }
    if (end == start) break;
    text[end] = '\n';
    start = end + 1;
  }
  return text;
}

std::string table(const std::vector<Row>& cells, std::size_t left) {
  std::vector<Row> rows;
  std::size_t headings = 0;
  for (const Row& row : cells) {
    const std::vector<Row> lines = lines_of(row, rows.empty());
    if (rows.empty()) headings = lines.size();
    rows.insert(rows.end(), lines.begin(), lines.end());
  }
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
    if (r + 1 != headings) continue;
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
