#include <doctest/doctest.h>

#include "exercises/support/trace.hpp"

using exercise::Inputs;
using exercise::Numbers;

// c00 of the output: the only cell that this exercise stores.
static void check_c00(const Inputs& inputs) {
  const std::vector<float>&a = inputs.at("a"), &b = inputs.at("b");
  const Numbers c = exercise::answer().output(inputs);
  exercise::check_output(
      {"c00"}, {c[0]}, {a[0] * b[0] + a[1] * b[2]},
      {{"mac-z-twice",
        {a[1] * b[2]},
        "the result is a01·b10 alone; MAC_Z forgets the sum so far, MAC adds to it"},
       {"column-for-row",
        {a[0] * b[0] + a[2] * b[2]},
        "the result is a00·b00 + a10·b10; row 0 of A is a[0][0] and a[0][1]"},
       {"row-for-column",
        {a[0] * b[0] + a[1] * b[1]},
        "the result is a00·b00 + a01·b01; column 0 of B is b[0][0] and b[1][0]"}});
}

TEST_CASE("c00 of the matrices in the file") {
  check_c00({{"a", {1, 2, 3, 4}}, {"b", {5, 6, 7, 8}}});
}

TEST_CASE("c00 of other matrices") { check_c00({{"a", {2, -3, 5, 7}}, {"b", {-1, 4, 0.5f, 9}}}); }

TEST_CASE("as few cycles as can be") { exercise::answer().check_cycles(7); }
