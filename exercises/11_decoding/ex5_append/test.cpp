#include <doctest/doctest.h>

#include <algorithm>
#include <append.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  bool grow(Sequence& s, int tokens, int page_size, Pool& pool) const {
    const auto up = [&](int count) { return (count + page_size - 1) / page_size; };
    const int length = s.length + tokens, have = static_cast<int>(s.pages.size());
    const int room = have * page_size - s.length;
    const int missing = is("for-the-new-tokens")     ? up(tokens)
                        : is("one-per-call")         ? 1
                        : is("page-for-each-token")  ? tokens
                        : is("pages-rounded-down")   ? length / page_size - have
                        : is("page-taken-too-early") ? length / page_size + 1 - have
                        : is("pages-taken-again")    ? up(length)
                        : is("from-new")             ? up(length) - up(s.length)
                        : is("room-if-all")          ? (tokens <= room ? 0 : up(tokens))
                                                     : up(length) - have;
    const int free = pool.free_pages();
    if (is("counted-before-refusing")) s.length = length;
    if (is("refused-if-just-enough")                                  ? missing >= free
        : is("own-pages-not-counted")                                 ? up(length) > free
        : is("last-page-not-counted")                                 ? tokens > free * page_size
        : is("refused-without-need")                                  ? free == 0 || missing > free
        : is.any("partly-taken", "ended-on-refusal", "never-refused") ? false
                                                                      : missing > free)
      return false;
    const auto before = s.pages;
    for (int i = 0; i < missing; ++i) {
      const int page = pool.take();
      if (page == NO_PAGE && !is("never-refused")) {
        if (is("ended-on-refusal")) {
          for (const int one : s.pages) pool.give_back(one);
          s.pages.clear();
        }
        return false;
      }
      s.pages.push_back(page);
    }
    if (!is("tokens-not-counted")) s.length = is("length-is-the-new-tokens") ? tokens : length;
    return true;
  }
  void end_sequence(Sequence& s, Pool& pool) const {
    const size_t first = is("first-page-kept")                      ? 1
                         : is("last-page-only") && !s.pages.empty() ? s.pages.size() - 1
                                                                    : 0;
    if (is("not-ended")) return;
    if (!is("pages-leaked"))
      for (size_t i = first; i < s.pages.size(); ++i) pool.give_back(s.pages[i]);
    if (!is("pages-not-forgotten")) s.pages.clear();
    if (!is("length-not-forgotten")) s.length = 0;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  bool grow(Sequence& sequence, int tokens, int page_size, Pool& pool) const {
    return ::grow(sequence, tokens, page_size, pool);
  }
  void end_sequence(Sequence& sequence, Pool& pool) const { ::end_sequence(sequence, pool); }
};

static const exercise::Table MISTAKES(R"(
last-page-not-filled: for-the-new-tokens; one-per-call; room-if-all
  pages were taken as if the last one had no room: one more only when it is full
page-for-each-token
  a page was taken for each token. A page has room for page_size
pages-rounded-down
  the pages were rounded down, so the last tokens have none: up
page-taken-too-early
  length / page_size + 1 is one page too many if the last one is just full
pages-taken-again
  pages for the whole length were taken. The sequence has some of them already
refused-if-just-enough
  it was refused although there are just as many free pages as are missing: missing > free
own-pages-not-counted
  all pages that the sequence needs were compared with the free ones. But the sequence has some
  already
last-page-not-counted
  the tokens were compared with the room in free pages. The last page of the sequence has room too,
  and pages may be begun that do not help
refused-without-need
  it was refused because no page is free, and it needs none
partly-taken
  pages were taken until there was none, and kept although the answer was no: all or nothing
ended-on-refusal
  when it was refused, the pages that it had before were given back as well. Give back only those
  that were just taken
never-refused
  take() had no page, and NO_PAGE went into the list: compare free_pages() first
counted-before-refusing
  the length grew although it was refused: add the tokens at the end
length-is-the-new-tokens
  the length was set to the number of new tokens. They come after the old ones: add
tokens-not-counted
  the length did not grow with the pages
pages-leaked
  the list was cleared, but no page was given back, so that these pages are lost
pages-not-forgotten
  the pages were given back and kept in the list: the sequence uses them on, and gives them back
  again
length-not-forgotten
  the length of a sequence that has ended is not 0
first-page-kept
  the first page was not given back
last-page-only
  only the last page was given back. Give back all of them
not-ended
  the end of a sequence changed nothing
)");

// Sequence `sequence` grows by `tokens`; END: it ends.
constexpr int END = -1;
struct Step {
  int sequence, tokens;
};

// Returns the result of each step. A token's place is recorded when it comes; later it must be the
// same, and no other token's.
template <class Any>
static Numbers history(const Any& way, int page_size, int pages, const std::vector<Step>& steps) {
  Pool pool(pages);
  std::vector<Sequence> sequences(3);
  std::vector<std::vector<int>> places(3);  // the page of each token
  Numbers result;
  for (const Step& step : steps) {
    Sequence& s = sequences[step.sequence];
    std::vector<int>& place = places[step.sequence];
    bool granted = true;
    if (step.tokens == END)
      way.end_sequence(s, pool);
    else
      granted = way.grow(s, step.tokens, page_size, pool);
    const auto page_of = [&](const Sequence& of, size_t token) {
      const size_t i = token / page_size;
      return i < of.pages.size() ? of.pages[i] : NO_PAGE;
    };
    if (step.tokens == END) place.clear();
    if (step.tokens != END && granted)
      for (int i = 0; i < step.tokens; ++i) place.push_back(page_of(s, place.size()));
    double moved = 0;
    for (size_t i = 0; i < places.size(); ++i)
      for (size_t token = 0; token < places[i].size(); ++token) {
        bool is_lost = page_of(sequences[i], token) != places[i][token];
        is_lost |= places[i][token] == NO_PAGE;
        moved += is_lost;
      }
    for (const double number : {double(granted), double(s.length), double(s.pages.size()),
                                double(pool.free_pages()), moved, double(pool.mistakes())})
      result.push_back(number);
  }
  return result;
}

static void check_history(int page_size, int pages, const std::vector<Step>& steps) {
  std::string asked = std::to_string(pages) + " pages of " + std::to_string(page_size) + ";";
  for (size_t i = 0; i < steps.size(); ++i) {
    asked += (i ? ", [" : " [") + std::to_string(i) + "] sequence " +
             std::to_string(steps[i].sequence) +
             (steps[i].tokens == END ? " ends" : " + " + std::to_string(steps[i].tokens));
  }
  INFO(asked);
  exercise::check_output<Way, Answer>(
      {"step", 6, 0, {"granted", "length", "pages", "free", "moved", "faults"}}, MISTAKES,
      [&](const auto& way) { return history(way, page_size, pages, steps); });
}

TEST_CASE("one sequence, token by token, pages of 4") {
  check_history(4, 5, {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 3}, {0, 1}});
}
TEST_CASE("a prompt, then tokens: pages of 16") {
  check_history(16, 10, {{0, 37}, {0, 1}, {0, 10}, {0, 1}, {0, 0}, {0, 15}, {0, 1}});
}
TEST_CASE("nothing is appended") { check_history(4, 2, {{0, 0}, {1, 4}, {1, 0}, {0, 4}, {0, 0}}); }
TEST_CASE("the README's") {
  check_history(4, 5, {{0, 6}, {0, 2}, {1, 9}, {0, 1}, {1, 3}, {0, END}, {1, 1}});
}
TEST_CASE("just enough pages") { check_history(4, 3, {{0, 4}, {1, 8}, {1, END}, {2, 5}}); }
TEST_CASE("refused, and requested again when another has ended") {
  check_history(2, 4, {{0, 3}, {1, 3}, {1, 6}, {1, 5}, {0, END}, {1, 5}, {1, END}, {2, 8}});
}
TEST_CASE("the last page has room when no page is free") {
  check_history(8, 2, {{0, 3}, {1, 10}, {1, 3}, {0, 5}, {0, 1}});
}
TEST_CASE("some pages are free, and too few") {
  check_history(4, 4, {{0, 5}, {1, 12}, {1, 8}, {0, 12}, {0, 0}, {1, END}, {0, 12}, {2, 9}});
}
TEST_CASE("ended, used again, ended twice") {
  check_history(3, 4, {{0, 7}, {0, END}, {0, END}, {1, 4}, {0, 5}, {1, END}, {0, END}, {2, 12}});
}
TEST_CASE("an end that had nothing") { check_history(4, 2, {{0, END}, {1, 5}, {0, END}, {1, 1}}); }
TEST_CASE("pages of 1") { check_history(1, 4, {{0, 1}, {1, 2}, {0, 1}, {1, 1}, {0, END}, {1, 1}}); }
