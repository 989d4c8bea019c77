#include <doctest/doctest.h>

#include <string>

#include "exercises/support/trace_products.hpp"

using namespace exercise;

// The inputs that are loaded more than once, in words.
static std::string loaded_again(const Trace& trace) {
  std::string words;
  for (const char* cell :
       {"a[0][0]", "a[0][1]", "a[1][0]", "a[1][1]", "b[0][0]", "b[0][1]", "b[1][0]", "b[1][1]"}) {
    if (trace.loads_of(cell) > 1) words += (words.empty() ? "" : ", ") + std::string(cell);
  }
  return words;
}

TEST_CASE("C for the matrices in the file") { check_elements(kInFile); }

TEST_CASE("C for other matrices") { check_elements(kOther); }

TEST_CASE("as few cycles as can be") {
  if (!check_elements(kOther)) return;
  const Trace trace = answer();
  const ch01::Cost& cost = trace.cost();
  trace.check_cycles(20, {{"nothing-is-shorter", cost.cycles >= 22 && !loaded_again(trace).empty(),
                           "22 cycles or more, as many as with R0 and R1 for all operands (01.3). "
                           "Where does it load an input for the second time?"},
                          {"loaded-twice", cost.cycles == 21 && !loaded_again(trace).empty(),
                           "better than 22, but loaded more than once: " + loaded_again(trace)}});
}
