#include <doctest/doctest.h>

#include "exercises/01_toy_machine/products.hpp"

using namespace exercise;

static void check_product(const Inputs& inputs) {
  const Numbers right = product(inputs);
  check_output(
      {"c", 2}, answer().output(inputs), right,
      {{"second-term-only", product(inputs, 1),
        "only the products of k = 1 are there: MAC_Z overwrites the sum, MAC adds to it"},
       {"round-stored-straight",
        {right[0], right[1], right[3], right[2]},
        "c10 and c11 have changed places: going round the square you meet c11 first, and its "
        "sum belongs in R5"}});
}

TEST_CASE("C for the matrices in the file") { check_product(kInFile); }

TEST_CASE("C for other matrices") { check_product(kOther); }

TEST_CASE("as few cycles as can be") {
  const Trace trace = answer();
  trace.check_cycles(
      22,
      {{"inner-product-order", trace.cost().loads >= 13,
        "13 LOADs or more, as many as with three registers; take one column of A and one row of B "
        "and do all four products before the next"},
       {"row-by-row", trace.cost().loads == 12,
        "6 LOADs for each k; after c01 go to c11, which needs one new operand, not to c10, which "
        "needs two"}});
}
