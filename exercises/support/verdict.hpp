#pragma once
// Shared by the tests of the exercises. Arrays are compared so that a NaN never passes, and a wrong
// answer is told which mistake it looks like, that is, the one that explains every failure of the
// run, and that nothing right contradicts. It is printed once, after the last test case. If two
// mistakes explain it all, it names both. If none does, it names none, and shows the first wrong
// number and its neighbours.

#include <string>
#include <vector>

#include "exercises/support/table.hpp"

namespace exercise {

using Numbers = std::vector<double>;

template <class Range>
Numbers numbers(const Range& range) {
  return Numbers(range.begin(), range.end());
}

// A mistake that people make here, and whether the observed result is the mistake's result. An edit
// of that name in solutions/…/mistakes.txt makes it.
struct Suspect {
  std::string name;
  bool matches;
  std::string explanation;  // one sentence with the mistake, and its effect on the result
};

// The same, known by what the output would be. Two of the same name are variants of one mistake.
struct Mistake {
  std::string name;
  Numbers output;
  std::string explanation;
};

// The same, known by the words that a run would show, such as its hazards, the contents of memory.
struct Look {
  std::string name, shown, explanation;
};

// Numbers as a part of what is shown: they are compared, and never printed.
template <class T>
std::string bytes(const std::vector<T>& all) {
  return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T)};
}

// The shown words or the output of each mistake of a table, by shown(way), output(way). A Way is
// made of Changes.
template <class Way = Changes, class Show>
std::vector<Look> looks(const Table& table, Show shown) {
  std::vector<Look> all;
  for (const Row& row : table) all.push_back({row.name, shown(Way{row.changes}), row.explanation});
  return all;
}
template <class Way = Changes, class Run>
std::vector<Mistake> mistakes(const Table& table, Run output) {
  std::vector<Mistake> all;
  for (const Row& row : table) all.push_back({row.name, output(Way{row.changes}), row.explanation});
  return all;
}

struct Output {
  std::string name;         // "o": messages say o[1][3]
  int columns = 0;          // columns of a matrix, or 0 for one subscript
  double tolerance = 1e-5;  // |got - expected| <= tolerance * (1 + |expected|); 0: equal
  std::vector<std::string> labels = {};  // names of the columns, in place of numbers, as in o[1].l
  std::vector<std::string> names = {};   // of all numbers, where they are not of one array
  bool relative = false;                 // |got - expected| <= tolerance * |expected|
};

// Compares all numbers, and on a difference fails with the first wrong one.
void check_output(const Output& output, const Numbers& got, const Numbers& expected,
                  const std::vector<Mistake>& mistakes = {}, int line = __builtin_LINE(),
                  const char* file = __builtin_FILE());

// The first wrong number, its neighbours, and how many are wrong, or empty if none is.
std::string difference(const Output& output, const Numbers& got, const Numbers& expected);

// A condition on anything else. The message says what was expected and what was found.
void check(bool ok, const std::string& message, const std::vector<Suspect>& suspects = {},
           int line = __builtin_LINE(), const char* file = __builtin_FILE());

// The same for what was shown. On success, mistakes that would have shown something else are out.
void check_shown(bool ok, const std::string& message, const std::string& shown,
                 const std::vector<Look>& looks, int line = __builtin_LINE(),
                 const char* file = __builtin_FILE());

// Compares run(Answer{}) with run(Way{}), which is right, and with each mistake's output.
template <class Way, class Answer, class Run>
void check_output(const Output& output, const Table& table, Run run, int line = __builtin_LINE(),
                  const char* file = __builtin_FILE()) {
  check_output(output, run(Answer{}), run(Way{}), mistakes<Way>(table, run), line, file);
}
// The same for what is shown in words; `what` says of which case.
template <class Way, class Answer, class Show>
void check_shown(const std::string& what, const Table& table, Show shown,
                 int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  const std::string got = shown(Answer{}), expected = shown(Way{});
  check_shown(got == expected, what + ": expected " + expected + ", got " + got, got,
              looks<Way>(table, shown), line, file);
}

// Normally distributed numbers, the same on every machine.
std::vector<float> random_numbers(int count, int seed, float scale = 1);

// Six significant digits, but NaN, Inf and whole numbers in full.
std::string text(double value);

}  // namespace exercise
