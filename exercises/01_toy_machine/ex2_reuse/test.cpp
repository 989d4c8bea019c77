#include <doctest/doctest.h>

#include "exercises/support/trace_products.hpp"

using namespace exercise;

TEST_CASE("C for the matrices in the file") { check_elements(kInFile); }

TEST_CASE("C for other matrices") { check_elements(kOther); }

TEST_CASE("as few cycles as can be") {
  if (!check_elements(kOther)) return;
  const Trace trace = answer();
  trace.check_cycles(
      25, {{"no-reuse", trace.cost().loads == 16,
            "16 LOADs, four for each element; begin an element with the values that the previous "
            "one left"},
           {"one-operand-kept", trace.cost().loads == 15,
            "one operand kept, three can be: at each of the three changes of the element"},
           {"row-by-row", trace.cost().loads == 14 && jumps(trace.program()),
            "two operands kept, three can be: where two elements in turn share no row and no "
            "column, nothing can; c00, c01, c11, c10 always share one"}});
}
