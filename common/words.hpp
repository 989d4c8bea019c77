#pragma once
// Text for a reader at a terminal: lines of at most 80 columns, and the word that was meant.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace fa {

// Breaks lines at spaces, so that they have at most `width` columns, although a longer word may
// have more. Continuation lines start where the text starts that follows the first two spaces in a
// row, as in "  label      text". The lines of a table, which have more such gaps, stay.
inline std::string wrapped(std::string text, size_t width = 80) {
  for (size_t start = 0; start < text.size();) {
    const size_t stop = std::min(text.find('\n', start), text.size());
    const size_t first = text.find_first_not_of(' ', start), gap = text.find("  ", first);
    const size_t from = gap < stop ? text.find_first_not_of(' ', gap) : first;
    size_t end = text.rfind(' ', start + width);
    if (end <= from) end = text.find(' ', start + width);
    if (stop - start <= width || end >= stop || text.find("  ", from) < stop) {
      start = stop + 1;
      continue;
    }
    text[end] = '\n';
    text.insert(end + 1, from - start, ' ');
    start = end + 1;
  }
  return text;
}

// Number of letters to add, remove or replace until a is b.
inline size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, corner + (a[i] != b[j])});
      corner = above;
    }
  }
  return row.back();
}

// Returns "; did you mean WORD?" if one of the words is at most two letters away, or else "".
inline std::string did_you_mean(const std::string& word, const std::vector<std::string>& words) {
  const auto closest = std::min_element(
      words.begin(), words.end(),
      [&](const auto& a, const auto& b) { return edits(word, a) < edits(word, b); });
  if (closest == words.end() || edits(word, *closest) > 2) return "";
  return "; did you mean " + *closest + "?";
}

}  // namespace fa
