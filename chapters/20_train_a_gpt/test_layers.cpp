// Compares each layer's backward pass with central differences in float64.
#include <numeric>

#include "layers.hpp"
#include "test_gradient.hpp"

using namespace fa::ch20;

namespace {

constexpr int64_t kRows = 5, kIn = 4, kOut = 3;

// A loss whose gradient is different everywhere, L = Σ weight · y
double weighted(const std::vector<double>& y, const std::vector<double>& weight) {
  return std::inner_product(y.begin(), y.end(), weight.begin(), 0.0);
}

}  // namespace

TEST_CASE("linear: dX, dW and db are those of central differences") {
  std::vector<double> x = normal_values(kRows * kIn, 1), w = normal_values(kIn * kOut, 2),
                      b = normal_values(kOut, 3), y(kRows * kOut);
  const std::vector<double> weight = normal_values(kRows * kOut, 4);
  const Matrix X(x.data(), kRows, kIn), W(w.data(), kIn, kOut);
  const auto loss = [&] {
    linear<double>(X, W, b.data(), {y.data(), kRows, kOut});
    return weighted(y, weight);
  };
  loss();
  std::vector<double> dy = weight, dx(x.size(), NAN), dw(w.size()), db(b.size());
  linear_backward<double>(X, W, {dy.data(), kRows, kOut}, {dx.data(), kRows, kIn},
                          {dw.data(), kIn, kOut}, db.data());
  check_gradient("dX", x, dx, loss);
  check_gradient("dW", w, dw, loss);
  check_gradient("db", b, db, loss);
}

TEST_CASE("layer norm: dX, dgain and dbias are those of central differences") {
  std::vector<double> x = normal_values(kRows * kIn, 1), gain = normal_values(kIn, 2),
                      bias = normal_values(kIn, 3), normalized(x.size()), inverse(kRows),
                      y(x.size());
  const std::vector<double> weight = normal_values(kRows * kIn, 4);
  const auto matrix = [&](std::vector<double>& values) {
    return Matrix(values.data(), kRows, kIn);
  };
  const auto loss = [&] {
    layer_norm<double>(matrix(x), gain.data(), bias.data(), matrix(normalized), inverse.data(),
                       matrix(y));
    return weighted(y, weight);
  };
  loss();
  std::vector<double> dy = weight, dx(x.size(), 1), dgain(kIn), dbias(kIn);
  layer_norm_backward<double>(matrix(dy), gain.data(), matrix(normalized), inverse.data(),
                              matrix(dx), dgain.data(), dbias.data());
  for (double& value : dx) value -= 1;  // the gradient was added to dX
  check_gradient("dX", x, dx, loss);
  check_gradient("dgain", gain, dgain, loss);
  check_gradient("dbias", bias, dbias, loss);
}

TEST_CASE("layer norm: a row of y has mean 0 and variance 1 before gain and bias") {
  std::vector<float> x = {1, 2, 3, 4, 1000, 1000, 1000, 1001}, normalized(8), inverse(2), y(8);
  const std::vector<float> gain(4, 2), bias(4, 1);
  layer_norm<float>({x.data(), 2, 4}, gain.data(), bias.data(), {normalized.data(), 2, 4},
                    inverse.data(), {y.data(), 2, 4});
  for (int64_t i = 0; i < 2; ++i) {
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < 4; ++j) {
      sum += normalized[4 * i + j];
      squares += normalized[4 * i + j] * normalized[4 * i + j];
      CHECK(y[4 * i + j] == doctest::Approx(2 * normalized[4 * i + j] + 1));
    }
    CHECK(close(sum, 0, 1e-4));
    CHECK(close(squares, 4, 1e-3));
  }
}

TEST_CASE("GELU: values at 0, ±∞ and 1; dX is that of central differences, in place too") {
  std::vector<double> x = normal_values(kRows * kIn, 1), y(x.size());
  x[0] = 0;
  x[1] = 1;
  x[2] = 30;
  x[3] = -30;
  const std::vector<double> weight = normal_values(kRows * kIn, 2);
  const Matrix X(x.data(), kRows, kIn), Y(y.data(), kRows, kIn);
  const auto loss = [&] {
    gelu<double>(X, Y);
    return weighted(y, weight);
  };
  loss();
  CHECK(y[0] == 0);
  CHECK(close(y[1], 0.8413, 3e-4));  // Φ(1), which tanh approximates
  CHECK(y[2] == 30);
  CHECK(y[3] == 0);
  std::vector<double> dx = weight;
  gelu_backward<double>(X, {dx.data(), kRows, kIn}, {dx.data(), kRows, kIn});
  check_gradient("dX", x, dx, loss);
}

TEST_CASE("cross entropy: equal logits cost ln(n); the gradient is that of central differences") {
  std::vector<double> logits(kRows * kOut, 2.5);
  const std::vector<int32_t> targets = {0, 2, 1, 1, 0};
  std::vector<double> gradient = logits;
  CHECK(
      close(cross_entropy<double>({gradient.data(), kRows, kOut}, targets), std::log(3.0), 1e-14));
  logits = normal_values(kRows * kOut, 1);
  logits[0] = 800;  // e^800 overflows
  gradient = logits;
  cross_entropy<double>({gradient.data(), kRows, kOut}, targets);
  check_gradient("dlogits", logits, gradient, [&] {
    std::vector<double> copy = logits;
    return cross_entropy<double>({copy.data(), kRows, kOut}, targets);
  });
}

TEST_CASE("products take blocks of wider matrices") {
  std::vector<double> a = normal_values(6 * 7, 1), b = normal_values(6 * 9, 2), c(20, 1);
  const Matrix A(a.data(), 6, 7), B(b.data(), 6, 9);
  const Matrix A_block = A.block(1, 2, 3, 2), B_block = B.block(2, 4, 2, 4);
  add_product<double>({c.data(), 3, 4, 5}, A_block, B_block, 0.5);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      const double product = A(1 + i, 2) * B(2, 4 + j) + A(1 + i, 3) * B(3, 4 + j);
      CHECK(close(c[5 * i + j], 1 + 0.5 * product, 1e-14));
    }
    if (i < 2) CHECK(c[5 * i + 4] == 1);  // outside the block
  }
}
