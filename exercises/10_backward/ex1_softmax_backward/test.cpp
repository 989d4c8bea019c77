#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <softmax_backward.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;
using Row = std::vector<float>;

// The allocated bytes tell whether an answer has built the Jacobian.
static size_t allocated = 0;
void* operator new(size_t bytes) {
  allocated += bytes;
  if (void* const memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Numbers dS(const Row& P, const Row& dP) const {
    double weighted = 0, plain = 0, squares = 0, weights = 0;
    const double n = static_cast<double>(P.size());
    for (size_t j = 0; j < P.size(); ++j) {
      weighted += double{P[j]} * dP[j];
      plain += dP[j];
      squares += double{P[j]} * P[j];
      weights += P[j];
    }
    double so_far = 0;
    Numbers result;
    for (size_t j = 0; j < P.size(); ++j) {
      so_far += double{P[j]} * dP[j];
      const double sum = is("d-forgotten")               ? 0
                         : is("d-not-weighted")          ? plain
                         : is("d-is-a-mean")             ? plain / n
                         : is("d-divided-by-the-length") ? weighted / n
                         : is("d-so-far")                ? so_far
                         : is("d-from-p-alone")          ? squares
                         : is("d-normalised-again")      ? weighted / weights
                                                         : weighted;
      const double p = P[j], dp = dP[j];
      result.push_back(is("sign-turned")              ? p * (sum - dp)
                       : is("d-added")                ? p * (dp + sum)
                       : is("p-forgotten")            ? dp - sum
                       : is("d-outside-the-bracket")  ? p * dp - sum
                       : is("p-and-dp-exchanged")     ? dp * (p - sum)
                       : is("diagonal-forgotten")     ? -p * sum
                       : is("only-the-diagonal")      ? p * (1 - p) * dp
                       : is("off-diagonal-with-plus") ? p * (1 - p) * dp + p * (sum - p * dp)
                       : is("p-twice")                ? p * (dp - p * sum)
                                                      : p * (dp - sum));
    }
    return result;
  }
};

static const exercise::Table MISTAKES(R"(
d-forgotten
  dS is P dP. That would be right if a score changed its own weight alone: dP - D
d-not-weighted
  D is the sum of dP. Each one counts with its weight: the sum of P dP
d-is-a-mean
  D is the mean of dP. It should be the sum of P dP
d-divided-by-the-length
  D was divided by the number of keys. The weights add up to 1 already
d-so-far
  D is used before it is complete: in each dS only the keys so far are in it. Two loops
d-from-p-alone
  D is the sum of P P. It should be the sum of P dP
d-normalised-again
  D was divided by the sum of P. That is 1 already, and 0 in a row that sees no key: 0/0
sign-turned
  dS has the other sign: dP - D, not D - dP
d-added
  D was added. It has to be subtracted: dP - D
p-forgotten
  dS is dP - D without the factor P: P (dP - D)
d-outside-the-bracket
  dS is P dP - D. D has the factor P, too: P (dP - D)
p-and-dp-exchanged
  dS is dP (P - D). P and dP are exchanged: P (dP - D)
diagonal-forgotten
  dS is -P D, the part with -P_j P_k alone: on the diagonal there is P_j (1 - P_j), which adds P
  dP
only-the-diagonal
  dS is P (1 - P) dP, the diagonal of the Jacobian alone. A score changes the other weights, too
off-diagonal-with-plus
  the Jacobian is P_j (1 - P_j) on the diagonal, and -P_j P_k off it. Here it is +P_j P_k
p-twice
  D was multiplied by P inside the bracket, and again outside: P (dP - D)
)");

// By definition, the sum over the Jacobian.
static Numbers by_jacobian(const Row& P, const Row& dP) {
  Numbers dS;
  for (size_t k = 0; k < P.size(); ++k) {
    double sum = 0;
    for (size_t j = 0; j < P.size(); ++j)
      sum += double{dP[j]} * P[j] * ((j == k ? 1 : 0) - double{P[k]});
    dS.push_back(sum);
  }
  return dS;
}

static void check_row(const Row& P, const Row& dP) {
  const auto mistakes =
      exercise::mistakes<Way>(MISTAKES, [&](const Way& way) { return way.dS(P, dP); });
  exercise::check_output({"dS", 0, 2e-6}, exercise::numbers(softmax_backward(P, dP)),
                         by_jacobian(P, dP), mistakes);
}

static Row softmax(Row s) {
  double sum = 0;
  for (float& one : s) sum += one = std::exp(one);
  for (float& one : s) one = static_cast<float>(one / sum);
  return s;
}

constexpr float HIDDEN = -std::numeric_limits<float>::infinity();

TEST_CASE("the row of the README") { check_row({0.5f, 0.25f, 0.25f}, {2, 4, 0}); }
TEST_CASE("one key: its weight cannot change") { check_row({1}, {3}); }
TEST_CASE("equal weights") { check_row({0.25f, 0.25f, 0.25f, 0.25f}, {1, -2, 3, 0.5f}); }
TEST_CASE("equal derivatives: L cannot change") {
  check_row(softmax({1, 2, -1, 0.5f}), {2, 2, 2, 2});
}
TEST_CASE("two keys are hidden") { check_row(softmax({1, HIDDEN, -1, HIDDEN}), {2, 5, -1, -3}); }
TEST_CASE("all keys are hidden") { check_row({0, 0, 0}, {2, 5, -1}); }
TEST_CASE("nine keys") {
  check_row(softmax(exercise::random_numbers(9, 1)), exercise::random_numbers(9, 2));
}
TEST_CASE("a NaN that came in comes out") {
  const Row P = {0.5f, 0.25f, 0.25f}, dP = {2, std::numeric_limits<float>::quiet_NaN(), 0};
  const auto shown = [](const Numbers& dS) {
    std::string text;
    for (const double one : dS) text += std::isnan(one) ? "NaN " : "a number ";
    return text;
  };
  const auto looks =
      exercise::looks<Way>(MISTAKES, [&](const Way& way) { return shown(way.dS(P, dP)); });
  const std::string got = shown(exercise::numbers(softmax_backward(P, dP)));
  exercise::check_shown(got == "NaN NaN NaN ",
                        "dP is 2, NaN, 0, so D is NaN: expected dS NaN NaN NaN, got " + got, got,
                        looks);
}
TEST_CASE("a thousand keys, and what it takes of memory") {
  const int n = 1000;
  const Row P = softmax(exercise::random_numbers(n, 3, 2)), dP = exercise::random_numbers(n, 4);
  check_row(P, dP);
  const size_t before = allocated;
  const Row dS = softmax_backward(P, dP);
  const size_t bytes = allocated - before;
  const size_t tenths = (bytes + 50'000) / 100'000;  // of a MB, equal where a pointer has 4 bytes
  exercise::check(bytes <= 64u * n,
                  std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
                      " MB allocated for " + std::to_string(n) + " keys",
                  {{"jacobian-built", bytes >= 4u * n * n,
                    "right, but the Jacobian was built: n * n numbers, for D alone n are enough"}});
}
