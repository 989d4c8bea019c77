#include "model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/problem.hpp"
#include "layers.hpp"

namespace fa::ch20 {
namespace {

// Returns the parameter's slice of `all`.
template <class R>
Matrix<R> slice(std::span<R> all, const Parameter& parameter) {
  return {all.data() + parameter.offset, parameter.rows, parameter.cols};
}

template <class R>
void add(Matrix<R> to, Input<R> from) {
  for (int64_t i = 0; i < to.rows * to.cols; ++i) to.data[i] += from.data[i];
}

}  // namespace

std::vector<Parameter> parameters(const Config& config) {
  const int64_t c = config.channels;
  std::vector<Parameter> all;
  int64_t offset = 0;
  const auto parameter = [&](const std::string& name, int64_t rows, int64_t cols, bool is_matrix) {
    all.push_back({name, offset, rows, cols, is_matrix});
    offset += rows * cols;
  };
  const auto norm = [&](const std::string& name) {
    parameter(name + " gain", 1, c, false);
    parameter(name + " bias", 1, c, false);
  };
  const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    parameter(name + " W", in, out, true);
    parameter(name + " b", 1, out, false);
  };
  parameter("token embedding", config.vocabulary, c, true);
  parameter("position embedding", config.context, c, true);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "block " + std::to_string(layer) + " ";
    norm(block + "norm 1");
    linear(block + "attention in", c, 3 * c);
    linear(block + "attention out", c, c);
    norm(block + "norm 2");
    linear(block + "MLP in", c, 4 * c);
    linear(block + "MLP out", 4 * c, c);
  }
  norm("last norm");
  linear("head", c, config.vocabulary);
  return all;
}

int64_t parameter_count(const Config& config) {
  const Parameter last = parameters(config).back();
  return last.offset + last.size();
}

std::vector<float> initial_parameters(const Config& config, uint64_t seed) {
  const std::vector<Parameter> layout = parameters(config);
  std::vector<float> weights(parameter_count(config));
  for (size_t i = 0; i < layout.size(); ++i) {
    const Parameter& one = layout[i];
    const auto to = weights.begin() + one.offset;
    if (one.is_matrix) {
      const bool ends_a_branch = one.name.ends_with("out W");
      const double deviation =
          0.02 / (ends_a_branch ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1);
      const std::array<int64_t, 1> shape = {one.size()};
      const std::vector<float> normal = random_values(shape, Dtype::f32, seed, i);  // mean 0.5
      std::transform(normal.begin(), normal.end(), to,
                     [&](float x) { return static_cast<float>(deviation * (x - 0.5)); });
    } else if (one.name.ends_with("gain")) {
      std::fill_n(to, one.size(), 1.0f);
    }
  }
  return weights;
}

template <class R>
Gpt<R>::Block::Block(const Config& config, int64_t batch, const AttentionChoice& choice)
    : norm_1(batch * config.context, config.channels),
      norm_2(batch * config.context, config.channels),
      qkv(batch * config.context * 3 * config.channels),
      o(batch * config.context * config.channels),
      hidden(batch * config.context * 4 * config.channels),
      activated(hidden.size()),
      attention(make_attention<R>(
          choice, {batch, config.heads, config.context, config.channels / config.heads})) {}

template <class R>
Gpt<R>::Gpt(const Config& config, int64_t batch, const AttentionChoice& attention)
    : config_(config),
      rows_(batch * config.context),
      layout_(parameters(config)),
      last_norm_(rows_, config.channels),
      x_(rows_ * config.channels),
      branch_(x_.size()),
      logits_(rows_ * config.vocabulary),
      dx_(x_.size()),
      dbranch_(x_.size()),
      dqkv_(3 * x_.size()),
      dhidden_(4 * x_.size()) {
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    blocks_.emplace_back(config, batch, attention);
  }
}

template <class R>
double Gpt<R>::forward(std::span<const R> weights, std::span<const int32_t> tokens,
                       std::span<const int32_t> targets) {
  const int64_t c = config_.channels;
  const auto weight = [&](size_t i) { return slice(weights, layout_[i]); };
  const auto norm = [&](Matrix<R> X, size_t gain, Norm& memory) {
    layer_norm<R>(X, weight(gain).data, weight(gain + 1).data, view(memory.normalized, c),
                  memory.inverse_deviation.data(), view(memory.output, c));
    return view(memory.output, c);
  };
  const Matrix<R> x = view(x_, c), branch = view(branch_, c);
  for (int64_t i = 0; i < rows_; ++i) {
    const R* const token = weight(TOKENS).row(tokens[i]);
    const R* const position = weight(POSITIONS).row(i % config_.context);
    for (int64_t j = 0; j < c; ++j) x(i, j) = token[j] + position[j];
  }
  size_t first = FIRST_BLOCK;
  // [anchor: block]
  for (Block& block : blocks_) {
    const auto W = [&](BlockParameter i) { return weight(first + i); };
    Matrix<R> normed = norm(x, first + GAIN_1, block.norm_1);
    linear<R>(normed, W(QKV_W), W(QKV_B).data, view(block.qkv, 3 * c));
    block.attention->forward(view(block.qkv, 3 * c), view(block.o, c));
    linear<R>(view(block.o, c), W(OUT_W), W(OUT_B).data, branch);
    add<R>(x, branch);  // x += attention(norm(x))

    normed = norm(x, first + GAIN_2, block.norm_2);
    linear<R>(normed, W(UP_W), W(UP_B).data, view(block.hidden, 4 * c));
    gelu<R>(view(block.hidden, 4 * c), view(block.activated, 4 * c));
    linear<R>(view(block.activated, 4 * c), W(DOWN_W), W(DOWN_B).data, branch);
    add<R>(x, branch);  // x += MLP(norm(x))
    first += PER_BLOCK;
  }
  // [/anchor: block]
  const Matrix<R> normed = norm(x, first + LAST_GAIN, last_norm_);
  const Matrix<R> logits = view(logits_, config_.vocabulary);
  linear<R>(normed, weight(first + HEAD_W), weight(first + HEAD_B).data, logits);
  return cross_entropy<R>(logits, targets);
}

template <class R>
void Gpt<R>::backward(std::span<const R> weights, std::span<const int32_t> tokens,
                      std::span<R> gradient) {
  const int64_t c = config_.channels;
  std::fill(gradient.begin(), gradient.end(), R(0));
  std::fill(dx_.begin(), dx_.end(), R(0));
  const auto weight = [&](size_t i) { return slice(weights, layout_[i]); };
  const auto grad = [&](size_t i) { return slice(gradient, layout_[i]); };
  const Matrix<R> dx = view(dx_, c), dbranch = view(dbranch_, c);
  const auto norm_backward = [&](size_t gain, Norm& memory) {  // dx += d norm(dbranch)
    layer_norm_backward<R>(dbranch, weight(gain).data, view(memory.normalized, c),
                           memory.inverse_deviation.data(), dx, grad(gain).data,
                           grad(gain + 1).data);
  };
  const auto linear_back = [&](Matrix<R> X, size_t W, Matrix<R> dY, Matrix<R> dX) {
    linear_backward<R>(X, weight(W), dY, dX, grad(W), grad(W + 1).data);
  };
  size_t first = FIRST_BLOCK + blocks_.size() * PER_BLOCK;
  linear_back(view(last_norm_.output, c), first + HEAD_W, view(logits_, config_.vocabulary),
              dbranch);
  norm_backward(first + LAST_GAIN, last_norm_);
  // [anchor: block_backward]
  for (size_t layer = blocks_.size(); layer-- > 0;) {
    Block& block = blocks_[layer];
    first -= PER_BLOCK;
    const Matrix<R> dhidden = view(dhidden_, 4 * c), dqkv = view(dqkv_, 3 * c);
    linear_back(view(block.activated, 4 * c), first + DOWN_W, dx, dhidden);
    gelu_backward<R>(view(block.hidden, 4 * c), dhidden, dhidden);
    linear_back(view(block.norm_2.output, c), first + UP_W, dhidden, dbranch);
    norm_backward(first + GAIN_2, block.norm_2);  // dx around the MLP, and through it

    linear_back(view(block.o, c), first + OUT_W, dx, dbranch);
    block.attention->backward(view(block.qkv, 3 * c), view(block.o, c), dbranch, dqkv);
    linear_back(view(block.norm_1.output, c), first + QKV_W, dqkv, dbranch);
    norm_backward(first + GAIN_1, block.norm_1);
  }
  // [/anchor: block_backward]
  for (int64_t i = 0; i < rows_; ++i) {  // the gradient of a row that several tokens use is a sum
    R* const token = grad(TOKENS).row(tokens[i]);
    R* const position = grad(POSITIONS).row(i % config_.context);
    for (int64_t j = 0; j < c; ++j) {
      token[j] += dx(i, j);
      position[j] += dx(i, j);
    }
  }
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace fa::ch20
