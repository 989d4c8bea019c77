// The subcommand chain shows the chain rule from O back to Q, K and V on 3 x 3 matrices. It
// compares each gradient with the central difference of L = Σ dO ∘ O, and prints the whole Jacobian
// of a product.

#include <array>
#include <cmath>
#include <functional>
#include <iostream>

#include "commands.hpp"
#include "common/error.hpp"
#include "common/text.hpp"

namespace fa::ch10 {
namespace {

using Row = std::array<double, 3>;
using Matrix = std::array<Row, 3>;

constexpr double kScale = 0.5;
const Matrix kQ = {{{2, 0, 1}, {0, 1, 1}, {1, 1, 0}}};
const Matrix kK = {{{1, 0, 1}, {0, 2, 0}, {1, 1, 0}}};
const Matrix kV = {{{1, 2, 0}, {0, 1, 3}, {2, 0, 1}}};
const Matrix kDO = {{{1, 0, -1}, {0, 2, 1}, {1, -1, 0}}};

Matrix each(const std::function<double(int, int)>& value) {
  Matrix result;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) result[i][j] = value(i, j);
  }
  return result;
}

Matrix operator*(const Matrix& A, const Matrix& B) {  // A @ B
  return each(
      [&](int i, int j) { return A[i][0] * B[0][j] + A[i][1] * B[1][j] + A[i][2] * B[2][j]; });
}

Matrix operator*(double factor, const Matrix& A) {
  return each([&](int i, int j) { return factor * A[i][j]; });
}

Matrix transposed(const Matrix& A) {
  return each([&](int i, int j) { return A[j][i]; });
}

Matrix elementwise(const Matrix& A, const Matrix& B) {  // A ∘ B
  return each([&](int i, int j) { return A[i][j] * B[i][j]; });
}

Row row_sums(const Matrix& A) {
  return {A[0][0] + A[0][1] + A[0][2], A[1][0] + A[1][1] + A[1][2], A[2][0] + A[2][1] + A[2][2]};
}

Matrix softmax(const Matrix& S) {
  const Matrix powers = each([&](int i, int j) { return std::exp(S[i][j]); });
  const Row sums = row_sums(powers);
  return each([&](int i, int j) { return powers[i][j] / sums[i]; });
}

Matrix scores(const Matrix& Q, const Matrix& K) { return kScale * (Q * transposed(K)); }

// L = Σ dO ∘ O, whose gradient with respect to O is dO.
double loss(const Matrix& Q, const Matrix& K, const Matrix& V) {
  const Row sums = row_sums(elementwise(kDO, softmax(scores(Q, K)) * V));
  return sums[0] + sums[1] + sums[2];
}

// Computes dL/dA, one element at a time.
Matrix central_difference(const Matrix& A, const std::function<double(const Matrix&)>& of) {
  constexpr double h = 1e-4;
  return each([&](int i, int j) {
    Matrix more = A, less = A;
    more[i][j] += h;
    less[i][j] -= h;
    return (of(more) - of(less)) / (2 * h);
  });
}

std::string number(double x) { return text("%8.4f", std::abs(x) < 5e-5 ? 0.0 : x); }

std::string line(const Row& row) { return number(row[0]) + number(row[1]) + number(row[2]); }

void print(const char* name, const Matrix& A) {
  for (int i = 0; i < 3; ++i)
    std::cout << text("  %-26s", i == 1 ? name : "") << line(A[i]) << '\n';
  std::cout << '\n';
}

bool close(const Row& a, const Row& b) {
  for (int i = 0; i < 3; ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-7)) return false;
  }
  return true;
}
bool close(const Matrix& A, const Matrix& B) {
  return close(A[0], B[0]) && close(A[1], B[1]) && close(A[2], B[2]);
}

// Prints both side by side. Returns true if they agree.
bool print_gradient(const char* name, const Matrix& gradient, const Matrix& difference) {
  for (int i = 0; i < 3; ++i) {
    std::cout << text("  %-26s", i == 1 ? name : "") << line(gradient[i]) << "   |"
              << line(difference[i]) << '\n';
  }
  const bool agree = close(gradient, difference);
  std::cout << (agree ? "\n" : "  they do NOT agree\n\n");
  return agree;
}

bool print_attention() {
  std::cout
      << "Three queries, three keys, three numbers each; scale = 0.5; float64.\n\nForward\n\n";
  const Matrix S = scores(kQ, kK), P = softmax(S), O = P * kV;
  print("S = scale Q K.T", S);
  print("P = softmax(S)", P);
  print("O = P V", O);
  std::cout << "Backward, from dO; right of the bar: central differences of L = sum(dO o O)\n\n";
  print("dO", kDO);

  const Matrix dV = transposed(P) * kDO;
  const Matrix dP = kDO * transposed(kV);
  const Row D = row_sums(elementwise(kDO, O)), same_D = row_sums(elementwise(P, dP));
  const Matrix dS = each([&](int i, int j) { return P[i][j] * (dP[i][j] - D[i]); });
  const Matrix dQ = kScale * (dS * kK);
  const Matrix dK = kScale * (transposed(dS) * kQ);

  bool agree = print_gradient(
      "dV = P.T dO", dV, central_difference(kV, [](const Matrix& V) { return loss(kQ, kK, V); }));
  print("dP = dO V.T", dP);
  std::cout << text("  %-26s", "D = rowsum(dO o O)") << line(D) << '\n'
            << text("  %-26s", "    rowsum(P o dP)") << line(same_D) << "\n\n";
  agree = close(D, same_D) && agree;
  print("dS = P o (dP - D)", dS);
  std::cout << text("  %-26s", "    rowsum(dS)") << line(row_sums(dS)) << "\n\n";
  agree = close(row_sums(dS), {0, 0, 0}) && agree;
  agree = print_gradient("dQ = scale dS K", dQ,
                         central_difference(kQ, [](const Matrix& Q) { return loss(Q, kK, kV); })) &&
          agree;
  agree = print_gradient("dK = scale dS.T Q", dK,
                         central_difference(kK, [](const Matrix& K) { return loss(kQ, K, kV); })) &&
          agree;
  return agree;
}

// C = A B for A = Q and B = K: dC_ij / dA_kl has 3 x 3 x 3 x 3 elements. A product is linear in A,
// and these are small integers, so a step of 1 gives the derivative exactly.
bool print_jacobian() {
  const Matrix &A = kQ, B = each([](int i, int j) { return 1 + i + 2 * j; }), dC = kDO;
  const Matrix C = A * B;
  int not_zero = 0, predicted = 0;
  const Matrix contracted = each([&](int k, int l) {  // dA_kl = Σ_ij dC_ij · dC_ij/dA_kl
    Matrix moved = A;
    moved[k][l] += 1;
    const Matrix moved_C = moved * B;
    double sum = 0;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        const double derivative = moved_C[i][j] - C[i][j];
        not_zero += derivative != 0;
        predicted += derivative == (i == k ? B[l][j] : 0);  // δ_ik B_lj
        sum += dC[i][j] * derivative;
      }
    }
    return sum;
  });
  std::cout << "The Jacobian of a product, C = A B: dC_ij / dA_kl, 81 numbers.\n"
            << text("  %d of them are delta_ik B_lj: row i of C knows row i of A only.\n",
                    predicted)
            << text("  %d of them are not 0.\n\n", not_zero);
  print("B", B);
  print("sum_ij dC_ij dC_ij/dA_kl", contracted);
  print("dC B.T", dC * transposed(B));
  return predicted == 81 && not_zero == 27 && close(contracted, dC * transposed(B));
}

}  // namespace

int chain_command() {
  const bool attention = print_attention(), jacobian = print_jacobian();
  const bool agree = attention && jacobian;
  std::cout << (agree ? "Every pair above agrees to 1e-7.\n" : "Something above does NOT agree.\n");
  return agree ? kAgreed : kDisagreed;
}

}  // namespace fa::ch10
