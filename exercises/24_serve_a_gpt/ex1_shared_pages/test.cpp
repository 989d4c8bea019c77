#include <doctest/doctest.h>

#include <algorithm>
#include <shared_pages.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int take(SharedPages& pages) const {
    if (pages.free.empty()) return is("zero-for-none") ? 0 : NO_PAGE;
    const auto at = is("last-first") ? pages.free.end() - 1 : pages.free.begin();
    const int page = *at;
    if (!is("taken-stays-free")) pages.free.erase(at);
    if (!is("taken-not-counted")) pages.holders[page] = 1;
    return page;
  }
  void share(SharedPages& pages, int page) const {
    const bool was_free = pages.holders[page] <= 0;
    if (!is("share-not-counted")) ++pages.holders[page];
    if (!is("shared-stays-free") && was_free) std::erase(pages.free, page);
  }
  void release(SharedPages& pages, int page) const {
    if (is("all-leave")) {
      pages.holders[page] = 0;
    } else {
      --pages.holders[page];
    }
    if (is("never-free")) return;
    if (!is("freed-early") && pages.holders[page] > 0) return;
    pages.free.insert(is("released-first") ? pages.free.begin() : pages.free.end(), page);
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int take(SharedPages& pages) const { return ::take(pages); }
  void share(SharedPages& pages, int page) const { ::share(pages, page); }
  void release(SharedPages& pages, int page) const { ::release(pages, page); }
};

static const exercise::Table MISTAKES(R"(
freed-early
  a page is in the free list although another sequence still holds it. Only the last release frees
  it
all-leave
  a release removed all holders of the page. It should remove one
never-free
  a page that lost its last holder is not in the free list: it leaks
shared-stays-free
  a free page that got a holder is still in the free list, so the next one takes it too
taken-stays-free
  a page that was taken is still in the free list
last-first
  the page that was freed last was taken. Take the first one of the list
released-first
  a released page went to the beginning of the free list. It belongs at the end
taken-not-counted
  a page that was taken has no holder
share-not-counted
  share did not add a holder
zero-for-none
  without a free page the answer is 0, which is a page. It should be NO_PAGE
)");

// Operations: 't' takes, 's' shares the page that follows, 'r' releases it. The numbers are the
// page that was taken (-2 if no page was), the holders, and the free list with -1 after its end.
static void check_history(int count, const std::string& operations) {
  const auto run = [&](const auto& way) {
    SharedPages pages;
    for (int page = 0; page < count; ++page) {
      pages.holders.push_back(0);
      pages.free.push_back(page);
    }
    Numbers result;
    for (size_t i = 0; i < operations.size(); ++i) {
      int taken = -2;
      const int page = i + 1 < operations.size() ? operations[i + 1] - '0' : 0;
      if (operations[i] == 't') taken = way.take(pages);
      if (operations[i] == 's') way.share(pages, page);
      if (operations[i] == 'r') way.release(pages, page);
      if (operations[i] != 't') ++i;
      result.push_back(taken);
      for (const int holders : pages.holders) result.push_back(holders);
      for (int n = 0; n < count + 1; ++n) {
        result.push_back(n < std::ssize(pages.free) ? pages.free[n] : -1);
      }
    }
    return result;
  };
  std::vector<std::string> labels = {"taken"};
  for (int page = 0; page < count; ++page) labels.push_back("holders_" + std::to_string(page));
  for (int n = 0; n < count + 1; ++n) labels.push_back("free_" + std::to_string(n));
  exercise::check_output<Way, Answer>({"after", static_cast<int>(std::ssize(labels)), 0, labels},
                                      MISTAKES, run);
}

TEST_CASE("one page: taken, released, taken again") { check_history(1, "ttr0t"); }
TEST_CASE("two pages are taken in the order in which they became free") {
  check_history(3, "tttr1r0tt");
}
TEST_CASE("the README's: a page with two holders") { check_history(3, "ts0r0r0s0t"); }
TEST_CASE("three holders; a page in the middle of the free list is held again") {
  check_history(4, "ts0s0tr0r1s1r0r0tttt");
}
