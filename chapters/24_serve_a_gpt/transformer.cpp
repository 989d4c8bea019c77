#include "transformer.hpp"

#include "chapters/20_train_a_gpt/layers.hpp"

namespace fa::ch24 {

using namespace ch20;

Transformer::Transformer(const TrainingState& trained, std::unique_ptr<CacheAttention> attention)
    : config_(trained.recipe.model),
      weights_(trained.weights),
      layout_(parameters(config_)),
      attention_(std::move(attention)) {}

// Does what Gpt::forward does, for the rows of the new tokens only.
Matrix<float> Transformer::forward(std::span<const Piece> pieces, std::span<const int32_t> tokens) {
  const int64_t rows = std::ssize(tokens), c = config_.channels;
  std::vector<float> x_values(rows * c), normed_values(rows * c), scaled(rows * c),
      qkv_values(3 * rows * c), o_values(rows * c), hidden_values(4 * rows * c), deviations(rows);
  const Matrix<float> x(x_values.data(), rows, c), normed(normed_values.data(), rows, c),
      qkv(qkv_values.data(), rows, 3 * c), o(o_values.data(), rows, c),
      hidden(hidden_values.data(), rows, 4 * c);
  const auto weight = [&](size_t i) {
    return Matrix<float>(weights_.data() + layout_[i].offset, layout_[i].rows, layout_[i].cols);
  };
  const auto norm = [&](size_t gain) {
    layer_norm<float>(x, weight(gain).data, weight(gain + 1).data, {scaled.data(), rows, c},
                      deviations.data(), normed);
  };
  const auto apply = [&](Matrix<float> in, size_t W, Matrix<float> out) {
    linear<float>(in, weight(W), weight(W + 1).data, out);
  };
  const auto add_branch = [&](Matrix<float> in, size_t W) {  // x += in @ W + b
    apply(in, W, normed);
    for (int64_t i = 0; i < rows * c; ++i) x.data[i] += normed.data[i];
  };
  // [anchor: embed]
  for (const Piece& piece : pieces) {
    for (int64_t i = 0; i < piece.count; ++i) {
      const int64_t row = piece.first_row + i, position = piece.sequence->length + i;
      for (int64_t j = 0; j < c; ++j)
        x(row, j) = weight(TOKENS)(tokens[row], j) + weight(POSITIONS)(position, j);
    }
  }
  // [/anchor: embed]
  // [anchor: layers]
  size_t first = FIRST_BLOCK;
  for (int64_t layer = 0; layer < config_.layers; ++layer, first += PER_BLOCK) {
    norm(first + GAIN_1);
    apply(normed, first + QKV_W, qkv);
    attention_->attend(layer, pieces, qkv, o);  // the only place where rows of a sequence meet
    add_branch(o, first + OUT_W);
    norm(first + GAIN_2);
    apply(normed, first + UP_W, hidden);
    gelu<float>(hidden, hidden);
    add_branch(hidden, first + DOWN_W);
  }
  // [/anchor: layers]
  norm(first + LAST_GAIN);
  logits_.resize(rows * config_.vocabulary);
  const Matrix<float> logits(logits_.data(), rows, config_.vocabulary);
  apply(normed, first + HEAD_W, logits);
  return logits;
}

}  // namespace fa::ch24
