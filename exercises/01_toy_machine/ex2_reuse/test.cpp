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
            "16 LOADs, four for each element, although an element can begin with the values that "
            "the previous one left"},
           {"one-operand-kept", trace.cost().loads == 15,
            "one operand was kept, but three can be, one at each change to the next element"},
           {"row-by-row", trace.cost().loads == 14 && jumps(trace.program()),
            "two operands were kept, but three can be, if two consecutive elements always share a "
            "row or a column, as in the order c00, c01, c11, c10"}});
}
