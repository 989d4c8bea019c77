#include "layers.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace fa::ch20 {

// ---- linear ----

template <class R>
void linear(Input<R> X, Input<R> W, const R* b, Matrix<R> Y) {
  for_row_blocks(Y.rows, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) std::copy_n(b, Y.cols, Y.row(i));
    add_product(Y.row_block(first, count), X.row_block(first, count), W);
  });
}

template <class R>
void linear_backward(Input<R> X, Input<R> W, Matrix<R> dY, Matrix<R> dX, Matrix<R> dW, R* db) {
  for_row_blocks(dX.rows, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) std::fill_n(dX.row(i), dX.cols, R(0));
    add_inner(dX.row_block(first, count), dY.row_block(first, count), W);  // dX = dY @ W.T
  });
  for_row_blocks(dW.rows, [&](int64_t first, int64_t count) {  // dW += X.T @ dY
    add_outer(dW.row_block(first, count), X.block(0, first, X.rows, count), dY);
  });
  for (int64_t i = 0; i < dY.rows; ++i) {
    for (int64_t j = 0; j < dY.cols; ++j) db[j] += dY(i, j);
  }
}

// ---- layer norm ----

template <class R>
void layer_norm(Matrix<R> X, const R* gain, const R* bias, Matrix<R> normalized,
                R* inverse_deviation, Matrix<R> Y) {
  const R n = static_cast<R>(X.cols);
  for (int64_t i = 0; i < X.rows; ++i) {
    const R* const x = X.row(i);
    R mean = 0, variance = 0;
    for (int64_t j = 0; j < X.cols; ++j) mean += x[j] / n;
    for (int64_t j = 0; j < X.cols; ++j) variance += (x[j] - mean) * (x[j] - mean) / n;
    inverse_deviation[i] = 1 / std::sqrt(variance + R(1e-5));
    for (int64_t j = 0; j < X.cols; ++j) {
      normalized(i, j) = (x[j] - mean) * inverse_deviation[i];
      Y(i, j) = normalized(i, j) * gain[j] + bias[j];
    }
  }
}

// Mean and deviation depend on every x of the row, so each dx has three terms, dx = (dx̂ −
// mean(dx̂) − x̂ · mean(dx̂ ∘ x̂)) · inverse_deviation, with dx̂ = dy ∘ gain.
template <class R>
void layer_norm_backward(Matrix<R> dY, const R* gain, Matrix<R> normalized,
                         const R* inverse_deviation, Matrix<R> dX, R* dgain, R* dbias) {
  const R n = static_cast<R>(dY.cols);
  for (int64_t i = 0; i < dY.rows; ++i) {
    const R *const dy = dY.row(i), *const x = normalized.row(i);
    R mean = 0, mean_x = 0;
    for (int64_t j = 0; j < dY.cols; ++j) {
      mean += dy[j] * gain[j] / n;
      mean_x += dy[j] * gain[j] * x[j] / n;
      dgain[j] += dy[j] * x[j];
      dbias[j] += dy[j];
    }
    for (int64_t j = 0; j < dY.cols; ++j) {
      dX(i, j) += (dy[j] * gain[j] - mean - x[j] * mean_x) * inverse_deviation[i];
    }
  }
}

// ---- GELU ----

namespace {
template <class R>
constexpr R kSlope = std::numbers::sqrt2_v<R>* std::numbers::inv_sqrtpi_v<R>;  // sqrt(2 / π)
template <class R>
constexpr R kCubic = R(0.044715);
}  // namespace

template <class R>
void gelu(Matrix<R> X, Matrix<R> Y) {
  for_row_blocks(X.rows, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      for (int64_t j = 0; j < X.cols; ++j) {
        const R x = X(i, j);
        Y(i, j) = x / 2 * (1 + std::tanh(kSlope<R> * (x + kCubic<R> * x * x * x)));
      }
    }
  });
}

template <class R>
void gelu_backward(Matrix<R> X, Matrix<R> dY, Matrix<R> dX) {
  for_row_blocks(X.rows, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      for (int64_t j = 0; j < X.cols; ++j) {
        const R x = X(i, j);
        const R t = std::tanh(kSlope<R> * (x + kCubic<R> * x * x * x));
        const R dt = (1 - t * t) * kSlope<R> * (1 + 3 * kCubic<R> * x * x);
        dX(i, j) = dY(i, j) * ((1 + t) / 2 + x / 2 * dt);
      }
    }
  });
}

// ---- cross entropy ----

// [anchor: cross_entropy]
template <class R>
double cross_entropy(Matrix<R> logits, std::span<const int32_t> targets) {
  std::vector<double> losses(logits.rows);
  for_row_blocks(logits.rows, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      R* const row = logits.row(i);
      const R m = *std::max_element(row, row + logits.cols), target = row[targets[i]];
      const R l = exponentiate(row, logits.cols, m);
      losses[i] = m + std::log(l) - target;  // −log(e^(target − m) / l)
      for (int64_t j = 0; j < logits.cols; ++j) {
        row[j] = (row[j] / l - (j == targets[i])) / static_cast<R>(logits.rows);
      }
    }
  });
  double sum = 0;  // summed in the order of the rows, whichever thread computed them
  for (const double loss : losses) sum += loss;
  return sum / static_cast<double>(logits.rows);
}
// [/anchor: cross_entropy]

// NOLINTBEGIN(bugprone-macro-parentheses): R is a type
#define FA_INSTANTIATE(R)                                                                         \
  template void linear(Input<R>, Input<R>, const R*, Matrix<R>);                                  \
  template void linear_backward(Input<R>, Input<R>, Matrix<R>, Matrix<R>, Matrix<R>, R*);         \
  template void layer_norm(Matrix<R>, const R*, const R*, Matrix<R>, R*, Matrix<R>);              \
  template void layer_norm_backward(Matrix<R>, const R*, Matrix<R>, const R*, Matrix<R>, R*, R*); \
  template void gelu(Matrix<R>, Matrix<R>);                                                       \
  template void gelu_backward(Matrix<R>, Matrix<R>, Matrix<R>);                                   \
  template double cross_entropy(Matrix<R>, std::span<const int32_t>);
// NOLINTEND(bugprone-macro-parentheses)
FA_INSTANTIATE(float)
FA_INSTANTIATE(double)
#undef FA_INSTANTIATE

}  // namespace fa::ch20
