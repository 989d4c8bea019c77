#include <doctest/doctest.h>

#include "exercises/support/trace_products.hpp"

using namespace exercise;

TEST_CASE("C for the matrices in the file") { check_elements(kInFile); }

TEST_CASE("C for other matrices") { check_elements(kOther); }

TEST_CASE("as few cycles as can be") {
  if (!check_elements(kOther)) return;
  const Trace trace = answer();
  trace.check_cycles(
      22, {{"inner-product-order", trace.cost().loads >= 13,
            "13 LOADs or more, as many as with three registers. Take one column of A and one row "
            "of B and do all four products before the next"},
           {"row-by-row",
            (trace.cost().loads == 12 || trace.cost().loads == 11) && jumps(trace.program()),
            "6 LOADs for a k, because c10 after c01 needs two new operands, while c11 needs only "
            "one"}});
}
