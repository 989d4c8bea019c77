// Tests drafts, which are the tokens that followed the same tokens before, and how many of them are
// accepted.
#include <doctest/doctest.h>

#include <string>

#include "drafts.hpp"

using namespace fa::ch24;

namespace {

std::string lookup(const std::string& text, int64_t count) {
  const std::vector<int32_t> draft =
      lookup_draft(std::vector<int32_t>(text.begin(), text.end()), count);
  return {draft.begin(), draft.end()};
}

}  // namespace

TEST_CASE("lookup: what followed the last occurrence of the longest match") {
  CHECK(lookup("abcXabcYabc", 2) == "Ya");
  CHECK(lookup("abcXabcYabc", 9) == "Yabc");
  CHECK(lookup("abcXbc", 3) == "Xbc");  // two characters match
  CHECK(lookup("aXbYa", 1) == "X");     // one
  CHECK(lookup("aaaa", 3) == "a");      // the last occurrence ends one token before the end
  CHECK(lookup("abcabc", 0).empty());
  CHECK(lookup("abcabc", -1).empty());
  CHECK(lookup("abcd", 4).empty());
  CHECK(lookup("a", 4).empty());
  CHECK(lookup("", 4).empty());
}

TEST_CASE("accept: choices up to the first that follows a wrong token") {
  using Tokens = std::vector<int32_t>;
  CHECK(accept(Tokens{}, Tokens{5}) == Tokens{5});
  CHECK(accept(Tokens{1, 2}, Tokens{1, 2, 3}) == Tokens{1, 2, 3});
  CHECK(accept(Tokens{1, 2}, Tokens{1, 9, 3}) == Tokens{1, 9});
  CHECK(accept(Tokens{1, 2}, Tokens{9, 2, 3}) == Tokens{9});
}
