#pragma once
// A cache of keys and values in pages: a sequence grows by one page at a time, and its pages may be
// anywhere. The idea is PagedAttention's (Kwon et al. 2023). No sequence has to reserve its maximum
// length, and a sequence can use the pages that another one has released.
//
// Token t of a sequence is row t % page_size of page table[t / page_size].

#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/simt/shuffle.hpp"
#include "splits.hpp"

namespace ch11 {

constexpr int64_t kLargestPage = 256;  // tokens

// Table entry without a page. It is far from all pages of any pool, so code that uses it accesses
// memory outside the pool.
constexpr int32_t kNoPage = -1'234'567'890;

inline void check_page_size(int64_t page_size) {
  if (page_size >= 1 && page_size <= kLargestPage) return;
  throw fa::InputError("pages of " + std::to_string(page_size) + " tokens: expected 1 to " +
                       std::to_string(kLargestPage));
}

// Throws InputError unless a table's 32-bit entries can number this many pages.
inline void check_pages(int64_t pages) {
  check_at_least(0, pages, "pages");
  if (pages <= std::numeric_limits<int32_t>::max()) return;
  throw fa::InputError(std::to_string(pages) + " pages: expected fewer than 2^31");
}

// Throws InputError for invalid sizes of a table. Lengths have 32 bits as well.
inline void check_table(int64_t sequences, int64_t columns, int64_t page_size) {
  check_page_size(page_size);
  check_at_least(0, sequences, "sequences");
  check_at_least(0, columns, "pages of a sequence");
  if (columns <= std::numeric_limits<int32_t>::max() / page_size) return;
  throw fa::InputError("sequences of " + std::to_string(columns) + " pages of " +
                       std::to_string(page_size) + " tokens: expected fewer than 2^31 tokens");
}

// The place of a token.
struct Place {
  int64_t page, row;
  bool operator==(const Place&) const = default;
};

inline Place place_of(std::span<const int32_t> table, int64_t token, int64_t page_size) {
  return {table[token / page_size], token % page_size};
}

// Pages 0 to pages - 1, each free or in use.
class PagePool {
 public:
  explicit PagePool(int64_t pages) {
    check_pages(pages);
    free_.resize(pages);
    std::iota(free_.rbegin(), free_.rend(), 0);  // page 0 is taken first
    in_use_.resize(pages);
  }

  // Returns a free page, or nothing if all are in use.
  std::optional<int32_t> take() {
    if (free_.empty()) return std::nullopt;
    const int32_t page = free_.back();
    free_.pop_back();
    in_use_[page] = true;
    return page;
  }

  void give_back(int32_t page) {
    if (page < 0 || page >= size() || !in_use_[page]) {
      throw std::logic_error("page " + std::to_string(page) + " was given back, and not in use");
    }
    in_use_[page] = false;
    free_.push_back(page);
  }

  int64_t size() const { return static_cast<int64_t>(in_use_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t used() const { return size() - free(); }

 private:
  std::vector<int32_t> free_;  // the last one is taken next
  std::vector<bool> in_use_;   // [pages]
};

// The pages of each sequence of a batch, in the form that a kernel reads: [sequences, columns], one
// row per sequence. The pool must outlive the table, whose destructor returns its pages.
class PageTable {
 public:
  PageTable(PagePool& pool, int64_t sequences, int64_t columns, int64_t page_size)
      : pool_(&pool), columns_(columns), page_size_(page_size) {
    check_table(sequences, columns, page_size);
    table_.assign(sequences * columns, kNoPage);
    lengths_.assign(sequences, 0);
  }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;
  ~PageTable() {
    for (int64_t sequence = 0; sequence < sequences(); ++sequence) release(sequence);
  }

  // [anchor: take_pages]
  // Makes room for `tokens` more tokens. False if the pool has too few pages, and then nothing has
  // changed. Throws InputError if a row of the table is too short.
  bool append(int64_t sequence, int64_t tokens) {
    check_at_least(0, tokens, "tokens to append");
    const int64_t old_pages = pages(sequence);
    if (tokens > columns_ * page_size_ - lengths_[sequence]) {
      throw fa::InputError(std::to_string(tokens) + " tokens behind " +
                           std::to_string(lengths_[sequence]) + ": a sequence has at most " +
                           std::to_string(columns_ * page_size_));
    }
    const int64_t length = lengths_[sequence] + tokens;
    const int64_t new_pages = ceil_div(length, page_size_);
    if (new_pages - old_pages > pool_->free()) return false;
    for (int64_t i = old_pages; i < new_pages; ++i) entry(sequence, i) = *pool_->take();
    lengths_[sequence] = static_cast<int32_t>(length);
    return true;
  }
  // [/anchor: take_pages]

  // Afterwards the sequence has no tokens.
  void release(int64_t sequence) {
    for (int64_t i = pages(sequence); i-- > 0;) {  // so that its first page is the next one taken
      pool_->give_back(entry(sequence, i));
      entry(sequence, i) = kNoPage;
    }
    lengths_[sequence] = 0;
  }

  int64_t sequences() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t columns() const { return columns_; }
  int64_t page_size() const { return page_size_; }
  int64_t length(int64_t sequence) const {
    check_sequence(sequence);
    return lengths_[sequence];
  }
  int64_t pages(int64_t sequence) const { return ceil_div(length(sequence), page_size_); }

  // [columns]: the first pages(sequence) entries are pages, the others kNoPage.
  std::span<const int32_t> row(int64_t sequence) const {
    check_sequence(sequence);
    return std::span(table_).subspan(sequence * columns_, columns_);
  }
  std::span<const int32_t> table() const { return table_; }      // [sequences, columns]
  std::span<const int32_t> lengths() const { return lengths_; }  // [sequences], tokens

  Place place(int64_t sequence, int64_t token) const {
    if (token < 0 || token >= length(sequence)) {
      throw fa::InputError("token " + std::to_string(token) + " of sequence " +
                           std::to_string(sequence) + ", which has " +
                           std::to_string(length(sequence)));
    }
    return place_of(row(sequence), token, page_size_);
  }

 private:
  void check_sequence(int64_t sequence) const {
    if (sequence >= 0 && sequence < sequences()) return;
    throw fa::InputError("sequence " + std::to_string(sequence) + " of " +
                         std::to_string(sequences()));
  }
  int32_t& entry(int64_t sequence, int64_t i) { return table_[sequence * columns_ + i]; }

  PagePool* pool_;
  int64_t columns_, page_size_;
  std::vector<int32_t> table_;    // [sequences, columns]
  std::vector<int32_t> lengths_;  // [sequences], tokens
};

// Returns a table [lengths.size(), columns] for sequences of these lengths, with pages at random
// places in a pool of `pages`, as after many appends and releases. All sequences share the first
// `shared` pages of the first sequence. The same seed gives the same table on every machine. Throws
// InputError if there are too few pages or columns.
inline std::vector<int32_t> scattered_table(std::span<const int32_t> lengths, int64_t columns,
                                            int64_t page_size, int64_t pages, uint64_t seed,
                                            int64_t shared = 0) {
  const int64_t sequences = static_cast<int64_t>(lengths.size());
  check_table(sequences, columns, page_size);
  check_pages(pages);
  std::vector<int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  fa::simt::shuffle(order, random);
  std::vector<int32_t> table(sequences * columns, kNoPage);
  size_t taken = 0;
  for (int64_t n = 0; n < sequences; ++n) {
    check_at_least(0, lengths[n], "tokens of a sequence");
    const int64_t needed = ceil_div(lengths[n], page_size);
    check_at_least(needed, columns, "pages of a sequence");
    const int64_t first = n > 0 ? shared : 0;
    check_at_least(first, needed, "pages of a sequence");
    check_at_least(needed - first, static_cast<int64_t>(order.size() - taken),
                   "pages that are left");
    std::copy_n(table.begin(), first, table.begin() + n * columns);
    for (int64_t i = first; i < needed; ++i) table[n * columns + i] = order[taken++];
  }
  return table;
}

}  // namespace ch11
