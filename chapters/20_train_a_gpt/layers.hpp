#pragma once
// The layers of a GPT other than attention, forward and backward. Activations are [rows, channels],
// one row per token of the batch. A backward function adds to the gradients of parameters. It also
// adds to the gradient of its input where its comment says +=, because the residual path has two
// sources.

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

// y = x̂ · gain + bias, x̂ = (x − mean) · inverse_deviation
// For the backward pass it keeps 1 / sqrt(variance + 1e-5) and x̂ of each row.
template <class R>
void layer_norm(Matrix<R> X, const R* gain, const R* bias, Matrix<R> normalized,
                R* inverse_deviation, Matrix<R> Y);
// dX += …, dgain += colsum(dY ∘ x̂), dbias += colsum dY
template <class R>
void layer_norm_backward(Matrix<R> dY, const R* gain, Matrix<R> normalized,
                         const R* inverse_deviation, Matrix<R> dX, R* dgain, R* dbias);

// y = x Φ(x), with Φ by tanh (Hendrycks and Gimpel 2016), as in GPT-2
template <class R>
void gelu(Matrix<R> X, Matrix<R> Y);
// dX = dY ∘ gelu'(X), where dX may be dY
template <class R>
void gelu_backward(Matrix<R> X, Matrix<R> dY, Matrix<R> dX);

// Returns the mean of −log softmax(logits)[target] over the rows. Replaces the logits by their
// gradient: (softmax(logits) − one_hot(target)) / rows.
template <class R>
double cross_entropy(Matrix<R> logits, std::span<const int32_t> targets);

}  // namespace fa::ch20
