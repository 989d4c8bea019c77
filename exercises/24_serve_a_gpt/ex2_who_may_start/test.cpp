#include <doctest/doctest.h>

#include <algorithm>
#include <vector>
#include <who_may_start.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int may_start(const std::vector<Waiting>& waiting, int free, int running, int batch,
                int page_size) const {
    int started = 0;
    const int at_first = running;
    for (const Waiting& one : waiting) {
      const int tokens = one.tokens + (is("no-next-token") ? 0 : 1);
      int leaves = is("rounded-down")  ? tokens / page_size
                   : is("always-more") ? tokens / page_size + 1
                                       : (tokens + page_size - 1) / page_size;
      if (!is("found-counted")) leaves -= one.found;
      if (!is("found-free-forgotten")) leaves += one.found_free;
      int kept = is("started-not-running") ? at_first : running;
      if (is("no-page-kept")) kept = 0;
      if (is("page-for-itself")) ++kept;
      const bool room = is("batch-ignored") || running < batch;
      if (!room || leaves + kept > free) {
        if (is("overtaking")) continue;
        return started;
      }
      if (!is("pages-not-taken")) free -= leaves;
      if (!is("batch-not-counted")) ++running;
      ++started;
    }
    return started;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int may_start(const std::vector<Waiting>& waiting, int free, int running, int batch,
                int page_size) const {
    return ::may_start(waiting, free, running, batch, page_size);
  }
};

static const exercise::Table MISTAKES(R"(
overtaking
  a request started although one before it could not. The first that cannot start ends it
no-page-kept
  no page was kept for the requests that run. Each may need one in the next step
page-for-itself
  a page was kept for the request that starts too. Its next token is counted already
found-counted
  pages that were found were counted as needed
found-free-forgotten
  found pages that are free leave the free list too. But they were not subtracted
no-next-token
  the request has pages for its tokens only. The next one needs a place too
rounded-down
  the pages were rounded down. The last one may be half full
always-more
  a page was added although the last one is exactly full
pages-not-taken
  the pages of a request that started were still counted as free for the one after it
started-not-running
  a page was kept for the requests that ran at first. One that has just started needs it too
batch-not-counted
  requests that started were not counted as running
batch-ignored
  more than `batch` requests run
)");

struct Case {
  std::vector<Waiting> waiting;
  int free, running, batch, page_size;
};

static void check_cases(const std::vector<Case>& cases) {
  exercise::check_output<Way, Answer>({"started", 0, 0}, MISTAKES, [&](const auto& way) {
    Numbers result;
    for (const Case& one : cases) {
      result.push_back(way.may_start(one.waiting, one.free, one.running, one.batch, one.page_size));
    }
    return result;
  });
}

TEST_CASE("one request, nothing runs: it may take all pages") {
  check_cases({{{}, 4, 0, 4, 4},
               {{{3, 0, 0}}, 1, 0, 4, 4},
               {{{4, 0, 0}}, 1, 0, 4, 4},
               {{{4, 0, 0}}, 2, 0, 4, 4},
               {{{15, 0, 0}}, 4, 0, 4, 4},
               {{{16, 0, 0}}, 4, 0, 4, 4}});
}
TEST_CASE("a page is kept for each request that runs") {
  check_cases({{{{7, 0, 0}}, 3, 1, 4, 4},
               {{{7, 0, 0}}, 2, 1, 4, 4},
               {{{7, 0, 0}}, 4, 3, 4, 4},
               {{{7, 0, 0}}, 5, 3, 4, 4}});
}
TEST_CASE("at most batch requests run") {
  check_cases({{{{1, 0, 0}, {1, 0, 0}, {1, 0, 0}}, 90, 0, 2, 4}, {{{1, 0, 0}}, 90, 4, 4, 4}});
}
TEST_CASE("the README's") { check_cases({{{{9, 2, 1}, {12, 0, 0}}, 7, 1, 3, 4}}); }
TEST_CASE("several start; the first that cannot ends it") {
  check_cases({{{{9, 0, 0}, {9, 0, 0}, {2, 0, 0}}, 8, 0, 8, 4},
               {{{9, 0, 0}, {30, 0, 0}, {2, 0, 0}}, 8, 0, 8, 4},
               {{{9, 0, 0}, {9, 0, 0}, {9, 0, 0}, {9, 0, 0}}, 8, 0, 8, 4},
               {{{3, 0, 0}, {3, 0, 0}, {3, 0, 0}, {3, 0, 0}}, 6, 0, 8, 4},
               {{{3, 0, 0}, {3, 0, 0}, {3, 0, 0}, {3, 0, 0}}, 5, 0, 8, 4}});
}
TEST_CASE("pages that were found") {
  check_cases({{{{17, 4, 0}}, 1, 0, 4, 4},
               {{{17, 4, 4}}, 4, 0, 4, 4},
               {{{17, 4, 4}}, 5, 0, 4, 4},
               {{{17, 4, 2}, {17, 4, 0}}, 5, 0, 4, 4},
               {{{17, 4, 2}, {17, 4, 0}}, 4, 0, 4, 4}});
}
