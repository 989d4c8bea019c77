#include <doctest/doctest.h>

#include "exercises/01_toy_machine/products.hpp"

using namespace exercise;

TEST_CASE("C for the matrices in the file") { check_elements(kInFile, "stale-operand"); }

TEST_CASE("C for other matrices") { check_elements(kOther, "stale-operand"); }

TEST_CASE("as few cycles as can be") {
  const Trace trace = answer();
  trace.check_cycles(
      25, {{"no-reuse", trace.cost().loads == 16,
            "16 LOADs, four for each element; begin an element with what the one before left"},
           {"row-by-row", trace.cost().loads == 14,
            "two operands kept, three can be; c01 and c10 share no row and no column, so which "
            "element should follow c01?"}});
}
