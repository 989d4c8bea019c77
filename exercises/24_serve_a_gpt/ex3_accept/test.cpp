#include <doctest/doctest.h>

#include <accept.hpp>
#include <algorithm>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  std::vector<int> accept(const std::vector<int>& draft, const std::vector<int>& choices) const {
    const int size = static_cast<int>(draft.size());
    if (is("all-choices")) return choices;
    if (is("all-or-nothing")) {
      return std::equal(draft.begin(), draft.end(), choices.begin()) ? choices
                                                                     : std::vector<int>{choices[0]};
    }
    std::vector<int> result;
    if (is("goes-on-after-a-mistake")) {
      for (int i = 0; i < size; ++i) {
        if (draft[i] == choices[i]) result.push_back(draft[i]);
      }
      result.push_back(choices[size]);
      return result;
    }
    int n = 0;
    const int shift = is("compared-one-later") ? 1 : 0;
    while (n < size && draft[n] == choices[n + shift]) ++n;
    for (int i = 0; i < n; ++i) result.push_back(draft[i]);
    if (is("own-token-lost") || (is("no-token-after-a-right-draft") && n == size && n > 0)) {
      return result;
    }
    result.push_back(is("wrong-token-of-the-draft") && n < size ? draft[n] : choices[n]);
    if (is("one-too-many") && n < size) result.push_back(choices[n + 1]);
    return result;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  std::vector<int> accept(const std::vector<int>& draft, const std::vector<int>& choices) const {
    return ::accept(draft, choices);
  }
};

static const exercise::Table MISTAKES(R"(
own-token-lost
  only tokens of the draft were accepted. The choice at the first wrong one is right too, or after
  the last
wrong-token-of-the-draft
  the first wrong token of the draft was appended. The model's choice there is the right one
one-too-many
  a choice was accepted that follows a wrong token of the draft
goes-on-after-a-mistake
  tokens after the first wrong one were accepted. What follows it has a wrong input
all-choices
  all choices were accepted, whatever the draft was
all-or-nothing
  a draft with a wrong token was rejected as a whole. Its tokens before that are right
no-token-after-a-right-draft
  the whole draft was right, and the choice after its last token is missing
compared-one-later
  draft[n] was compared with the choice that follows it. choices[n] is the one in its place
)");

struct Case {
  std::vector<int> draft, choices;
};

// The number of accepted tokens, then the tokens, with -1 after the last.
static void check_cases(const std::vector<Case>& cases) {
  exercise::check_output<Way, Answer>(
      {"draft",
       7,
       0,
       {"accepted", "token_0", "token_1", "token_2", "token_3", "token_4", "token_5"}},
      MISTAKES, [&](const auto& way) {
        Numbers result;
        for (const Case& one : cases) {
          const std::vector<int> tokens = way.accept(one.draft, one.choices);
          result.push_back(static_cast<double>(tokens.size()));
          for (size_t i = 0; i < 6; ++i) result.push_back(i < tokens.size() ? tokens[i] : -1);
        }
        return result;
      });
}

TEST_CASE("no draft: one token") { check_cases({{{}, {5}}, {{}, {0}}}); }
TEST_CASE("a draft of one token, right and wrong") {
  check_cases({{{4}, {4, 7}}, {{4}, {5, 7}}, {{4}, {7, 4}}});
}
TEST_CASE("the README's: wrong in its last token") {
  check_cases({{{18, 14, 5, 12}, {18, 14, 5, 25, 0}}});
}
TEST_CASE("wrong in the middle, and right again after it") {
  check_cases({{{1, 2, 3, 4}, {1, 9, 3, 4, 5}}, {{1, 2, 3, 4}, {9, 2, 3, 4, 5}}});
}
TEST_CASE("all right; the same token again and again") {
  check_cases({{{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6}},
               {{7, 7, 7}, {7, 7, 7, 7}},
               {{7, 7, 7}, {7, 7, 8, 7}}});
}
