#pragma once
// The layers of a GPT beside attention, forward and backward. Activations are [rows, channels], a
// row for each token of the batch. A backward function adds to the gradients of parameters, and to
// that of its input where it says so: the residual path has two sources.

#include <cstdint>
#include <span>

#include "matrix.hpp"

namespace fa::ch20 {

// Y = X @ W + b       [rows, out] = [rows, in] @ [in, out] + [out]
template <class R>
void linear(Input<R> X, Input<R> W, const R* b, Matrix<R> Y);
// dX = dY @ W.T, dW += X.T @ dY, db += colsum dY
template <class R>
void linear_backward(Input<R> X, Input<R> W, Matrix<R> dY, Matrix<R> dX, Matrix<R> dW, R* db);

// What layer_norm keeps of each row for its backward pass: 1 / sqrt(variance + 1e-5), and the row
// before gain and bias.
// y = x̂ · gain + bias, x̂ = (x − mean) · inverse_deviation
template <class R>
void layer_norm(Matrix<R> X, const R* gain, const R* bias, Matrix<R> normalized,
                R* inverse_deviation, Matrix<R> Y);
// dX += …, dgain += colsum(dY ∘ x̂), dbias += colsum dY
template <class R>
void layer_norm_backward(Matrix<R> dY, const R* gain, Matrix<R> normalized,
                         const R* inverse_deviation, Matrix<R> dX, R* dgain, R* dbias);

// y = x Φ(x), with Φ by tanh: Hendrycks and Gimpel 2016, as GPT-2 has it
template <class R>
void gelu(Matrix<R> X, Matrix<R> Y);
// dX = dY ∘ gelu'(X); dX may be dY
template <class R>
void gelu_backward(Matrix<R> X, Matrix<R> dY, Matrix<R> dX);

// The mean of −log softmax(logits)[target] over the rows. The logits become its gradient with
// respect to them: (softmax(logits) − one_hot(target)) / rows.
template <class R>
double cross_entropy(Matrix<R> logits, std::span<const int32_t> targets);

}  // namespace fa::ch20
