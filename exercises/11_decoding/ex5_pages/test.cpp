#include <doctest/doctest.h>

#include <numeric>
#include <pages.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

struct Step {
  int sequence, tokens;  // tokens below 0: release
};

// The functions as people write them: right as they stand here, each mistake is a change.
struct Way {
  enum Needed { kRight, kFloor, kOneMore, kOfThese, kAtLeastOne, kForEach } needed = kRight;
  enum Short { kAll, kPartly, kByTokens, kLengthAnyway, kStrict } too_few = kAll;
  enum Back { kLastFirst, kFirstFirst, kLost, kKept, kLengthKept, kOnlyLast } back = kLastFirst;
  bool from_front = false, length_forgotten = false;

  bool append(Sequence& s, int tokens, std::vector<int>& free_pages) const {
    const int length = s.length + tokens, have = static_cast<int>(s.pages.size());
    const int right = (length + PAGE_SIZE - 1) / PAGE_SIZE - have;
    const int count = needed == kFloor        ? length / PAGE_SIZE - have
                      : needed == kOneMore    ? length / PAGE_SIZE + 1 - have
                      : needed == kOfThese    ? (tokens + PAGE_SIZE - 1) / PAGE_SIZE
                      : needed == kAtLeastOne ? (right > 0 ? right : 1)
                      : needed == kForEach    ? tokens
                                              : right;
    const int present = static_cast<int>(free_pages.size());
    const bool enough = too_few == kByTokens ? tokens <= present
                        : too_few == kStrict ? count < present
                                             : count <= present;
    if (!enough && too_few != kPartly) {
      if (too_few == kLengthAnyway) s.length = length;
      return false;
    }
    for (int i = 0; i < count; ++i) {
      if (free_pages.empty()) return false;
      const int page = from_front ? free_pages.front() : free_pages.back();
      s.pages.push_back(page);
      free_pages.erase(from_front ? free_pages.begin() : free_pages.end() - 1);
    }
    if (!length_forgotten) s.length = length;
    return true;
  }
  void release(Sequence& s, std::vector<int>& free_pages) const {
    const std::vector<int> pages = s.pages;
    const int count = static_cast<int>(pages.size());
    for (int i = 0; i < count; ++i) {
      if (back == kLost || (back == kOnlyLast && i > 0)) continue;
      free_pages.push_back(back == kFirstFirst ? pages[i] : pages[count - 1 - i]);
    }
    if (back != kKept) s.pages.clear();
    if (back != kLengthKept) s.length = 0;
  }
};

struct Mine {
  bool append(Sequence& s, int tokens, std::vector<int>& free_pages) const {
    return ::append(s, tokens, free_pages);
  }
  void release(Sequence& s, std::vector<int>& free_pages) const { ::release(s, free_pages); }
};

// What stands where after each step, in words.
template <class How>
static std::vector<std::string> story(const std::vector<Step>& steps, int pages, const How& how) {
  std::vector<Sequence> sequences(3);
  std::vector<int> free_pages(pages);
  std::iota(free_pages.begin(), free_pages.end(), 0);
  std::vector<std::string> shown;
  const auto list = [](const std::vector<int>& numbers) {
    std::string text;
    for (const int number : numbers) text += " " + std::to_string(number);
    return text.empty() ? std::string(" none") : text;
  };
  for (const Step& step : steps) {
    Sequence& s = sequences[step.sequence];
    std::string line = "sequence " + std::to_string(step.sequence);
    if (step.tokens < 0) {
      how.release(s, free_pages);
      line += " ends:";
    } else {
      const bool fits = how.append(s, step.tokens, free_pages);
      line += " + " + std::to_string(step.tokens) + (fits ? ":" : ": refused;");
    }
    line += " " + std::to_string(s.length) + " tokens in pages" + list(s.pages) + "; free" +
            list(free_pages);
    shown.push_back(line);
    if (free_pages.size() > 100) break;  // given back more often than taken
  }
  return shown;
}

static std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

static void check_story(const std::vector<Step>& steps, int pages) {
  using W = Way;
  std::vector<exercise::Look> looks;
  const auto look = [&](const char* name, const char* explanation, const Way& way) {
    looks.push_back({name, joined(story(steps, pages, way)), explanation});
  };
  look("pages-rounded-down",
       "the pages were rounded down: a page that is partly full is a page, too",
       {.needed = W::kFloor});
  look("a-page-too-many", "a sequence that ends with its page takes another one, which is empty",
       {.needed = W::kOneMore});
  look("room-not-used",
       "the new tokens were given pages of their own; the last page may have room for some",
       {.needed = W::kOfThese});
  look("a-page-each-time", "each append takes a page, also where the last one has room",
       {.needed = W::kAtLeastOne});
  look("a-page-for-each-token", "each token was given a page of its own; PAGE_SIZE share one",
       {.needed = W::kForEach});
  look("taken-and-refused",
       "too few pages: those that there were are taken all the same; look first, then take",
       {.too_few = W::kPartly});
  look("pages-counted-as-tokens",
       "the tokens were compared with the free pages; a page has PAGE_SIZE",
       {.too_few = W::kByTokens});
  look("grown-and-refused", "the length has grown although the append was refused",
       {.too_few = W::kLengthAnyway});
  look("last-page-refused", "the last free page was refused: as many as are needed are enough",
       {.too_few = W::kStrict});
  look("taken-from-the-front", "pages are taken from the front; the end of free_pages is next",
       {.from_front = true});
  look("length-not-updated", "append does not change the length", {.length_forgotten = true});
  look("pages-lost", "the pages were not given back: nobody can ever have them again",
       {.back = W::kLost});
  look("only-one-page-back", "one page was given back; all of them are", {.back = W::kOnlyLast});
  look("pages-kept", "the sequence still has the pages that it gave back: two will write there",
       {.back = W::kKept});
  look("length-kept", "the sequence has ended, and still has its length", {.back = W::kLengthKept});
  look("first-page-first", "the pages go back first page first; the last one goes first",
       {.back = W::kFirstFirst});
  const std::vector<std::string> got = story(steps, pages, Mine{}),
                                 right = story(steps, pages, Way{});
  std::string first;
  for (size_t i = 0; i < right.size() && first.empty(); ++i) {
    const std::string here = i < got.size() ? got[i] : "";
    if (here != right[i]) first = "\n  got       " + here + "\n  expected  " + right[i];
  }
  exercise::check_shown(got == right, first, joined(got), looks);
}

TEST_CASE("one sequence") { check_story({{0, 3}, {0, 1}, {0, 1}, {0, 7}}, 6); }
TEST_CASE("the README's") { check_story({{0, 6}, {0, 2}, {0, 1}, {0, -1}}, 6); }
TEST_CASE("three take turns") {
  check_story({{0, 5}, {1, 4}, {2, 1}, {0, 4}, {1, 1}, {2, 3}, {1, -1}, {2, 5}, {0, -1}}, 9);
}
TEST_CASE("too few pages") {
  check_story({{0, 6}, {1, 9}, {1, 4}, {0, 3}, {1, -1}, {0, 3}, {2, 5}}, 3);
}
TEST_CASE("the last page") { check_story({{0, 4}, {1, 8}, {2, 1}, {0, 0}, {0, -1}, {2, 4}}, 3); }
TEST_CASE("comes back") { check_story({{0, 9}, {0, -1}, {0, 9}, {0, -1}, {1, 12}, {1, -1}}, 3); }
