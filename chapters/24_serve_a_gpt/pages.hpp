#pragma once
// Pages of the cache that several sequences can hold, and the index that finds them again by the
// tokens that they were computed from. Chapter 11's pool has one holder per page. The index is the
// idea of vLLM's prefix caching and of SGLang's RadixAttention (Zheng et al. 2024).

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "breaks.hpp"
#include "chapters/11_decoding/pages.hpp"

namespace fa::ch24 {

using Tokens = std::vector<int32_t>;

// A sequence in the cache. Row t % page_size of pages[t / page_size] holds K and V of token t.
struct Sequence {
  std::vector<int32_t> pages;
  int64_t length = 0;  // tokens whose K and V are in the cache
};

class SharedPages {
 public:
  SharedPages(int64_t pages, int64_t page_size, Breaks breaks = {})
      : page_size_(page_size), breaks_(breaks), holders_(pages), prefix_(pages) {
    ch11::check_pages(pages);
    ch11::check_page_size(page_size);
    free_.resize(pages);
    std::iota(free_.begin(), free_.end(), 0);
  }

  // [anchor: holders]
  // Returns a page for one holder, or nothing if every page is held. It is the page that has been
  // free for the longest time, and the index forgets what it held.
  std::optional<int32_t> take() {
    if (free_.empty()) return std::nullopt;
    const int32_t page = free_.front();
    free_.pop_front();
    if (!breaks_.has(STALE_PAGE)) forget(page);
    holders_[page] = 1;
    return page;
  }

  // Adds a holder. A free page still has its K and V, so it can be held again.
  void share(int32_t page) {
    if (holders_[page]++ == 0) free_.erase(std::find(free_.begin(), free_.end(), page));
  }

  // Removes a holder. The page is free after the last one.
  void release(int32_t page) {
    if (holders_[page] == 0) return lost(page);
    holders_[page] = breaks_.has(PAGE_FREED_EARLY) ? 0 : holders_[page] - 1;
    if (holders_[page] == 0) free_.push_back(page);
  }
  // [/anchor: holders]

  // [anchor: index]
  // Tells the index that a full page ends this prefix of a sequence.
  void publish(int32_t page, std::span<const int32_t> prefix) {
    const auto [entry, is_new] = page_of_.try_emplace(Tokens(prefix.begin(), prefix.end()), page);
    if (is_new) prefix_[page] = entry->first;
  }

  // Returns the pages whose tokens begin `tokens`, and leaves at least one token to compute,
  // because the next token needs the logits of the last one.
  std::vector<int32_t> find(std::span<const int32_t> tokens) const {
    std::vector<int32_t> found;
    for (int64_t end = page_size_; end < std::ssize(tokens); end += page_size_) {
      const auto entry = page_of_.find(Tokens(tokens.begin(), tokens.begin() + end));
      if (entry == page_of_.end()) break;
      found.push_back(entry->second);
    }
    return found;
  }
  // [/anchor: index]

  // Takes pages until the sequence has room for `tokens` more. False if there are too few pages,
  // and then nothing has changed.
  bool reserve(Sequence& sequence, int64_t tokens) {
    const int64_t needed = ch11::ceil_div(sequence.length + tokens, page_size_);
    if (needed - std::ssize(sequence.pages) > free()) return false;
    while (std::ssize(sequence.pages) < needed) sequence.pages.push_back(*take());
    return true;
  }

  // Releases the pages after the sequence's last token.
  void trim(Sequence& sequence) {
    while (std::ssize(sequence.pages) > ch11::ceil_div(sequence.length, page_size_)) {
      release(sequence.pages.back());
      sequence.pages.pop_back();
    }
  }

  void release(Sequence& sequence) {
    sequence.length = 0;
    trim(sequence);
  }

  int64_t size() const { return std::ssize(holders_); }
  int64_t page_size() const { return page_size_; }
  int64_t free() const { return std::ssize(free_); }
  int64_t used() const { return size() - free(); }
  int64_t shared() const {  // pages with several holders
    return std::count_if(holders_.begin(), holders_.end(), [](int64_t n) { return n > 1; });
  }
  int64_t holders(int32_t page) const { return holders_[page]; }
  // Returns how many of these pages are free, so that a new holder takes them from the free ones.
  int64_t free_among(std::span<const int32_t> pages) const {
    return std::count_if(pages.begin(), pages.end(), [&](int32_t p) { return holders_[p] == 0; });
  }

 private:
  void forget(int32_t page) {
    if (prefix_[page].empty()) return;
    page_of_.erase(prefix_[page]);
    prefix_[page].clear();
  }
  void lost(int32_t page) const {
    if (breaks_.mask != 0) return;
    throw std::logic_error("page " + std::to_string(page) + " was released without a holder");
  }

  int64_t page_size_;
  Breaks breaks_;
  std::vector<int64_t> holders_;       // [pages]
  std::deque<int32_t> free_;           // the first one is taken next
  std::map<Tokens, int32_t> page_of_;  // the page that ends a prefix
  std::vector<Tokens> prefix_;         // [pages]: the key in page_of_, empty if not in the index
};

}  // namespace fa::ch24
