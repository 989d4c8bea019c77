#pragma once
// The pages of some sequences, in which 11.3 looks up keys.

#include <cstdint>
#include <vector>

// The table of pages, [sequences, columns]: a row for each sequence, and a column for each page
// that it may have. Records each lookup. The entries after the pages of a sequence are
// garbage.
class PageTable {
 public:
  PageTable(int columns, std::vector<int> pages) : columns_(columns), pages_(std::move(pages)) {}

  int columns() const { return columns_; }

  // Number `index` of the table, counted row by row. Outside of it there is garbage as well.
  int look_up(int64_t index) {
    asked_.push_back(index);
    const bool there = index >= 0 && index < static_cast<int64_t>(pages_.size());
    return there ? pages_[index] : -1'000'003;
  }

  const std::vector<int64_t>& asked() const { return asked_; }

 private:
  int columns_;
  std::vector<int> pages_;
  std::vector<int64_t> asked_;
};

// K is [pages, kv_heads, page_size, dim], without gaps: a page has page_size keys of each head.
struct Cache {
  int pages, kv_heads, page_size, dim;
  std::vector<int> lengths;  // keys of each sequence
};
