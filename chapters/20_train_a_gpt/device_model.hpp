#pragma once
// The steps of a GPT's training as launches. The including file must first define Products, the
// matrix products, which differ between a GPU and the emulator.

#include <cmath>
#include <numeric>

#include "common/kernels/array.hpp"
#include "device_gpt.hpp"
#include "device_layers.hpp"

namespace FA_BACKEND::ch20 {

using fa::ch20::Batch;
using fa::ch20::Config;
using fa::ch20::Parameter;
using fa::ch20::Recipe;
using fa::ch20::TrainingState;

// Pads the vocabulary so that rows of the logits start at multiples of 16 bytes. The columns after
// the characters are zero, and no gradient reaches them.
inline Config padded(Config config) {
  config.vocabulary = (config.vocabulary + 7) / 8 * 8;
  return config;
}

class Model final : public fa::ch20::DeviceGpt {
 public:
  Model(const Recipe& recipe, const fa::ch20::AttentionKernels& kernels,
        const fa::KernelBuild& forward_build, const fa::KernelBuild& backward_build)
      : recipe_(recipe),
        config_(padded(recipe.model)),
        layout_(fa::ch20::parameters(config_)),
        file_layout_(fa::ch20::parameters(recipe.model)),
        rows_(recipe.batch * config_.context),
        kernels_(kernels),
        forward_build_(forward_build),
        backward_build_(backward_build),
        attention_shape_{recipe.batch, config_.heads, config_.context, config_.context,
                         config_.channels / config_.heads},
        count_(fa::ch20::parameter_count(config_)),
        weights_(count_, "weights"),
        gradient_(count_, "gradient"),
        moment_(count_, "moment"),
        square_(count_, "square"),
        rounded_(count_, "rounded weights"),
        tokens_(rows_, "tokens"),
        targets_(rows_, "targets"),
        losses_(rows_, "losses"),
        one_hot_(rows_ * config_.vocabulary, "one-hot tokens"),
        logits_(rows_ * config_.vocabulary, "logits"),
        dlogits_(rows_ * config_.vocabulary, "dlogits"),
        branch_(rows_ * config_.channels, "branch"),
        dY_(rows_ * config_.channels, "dY"),
        dX_(rows_ * config_.channels, "dX"),
        dX_rounded_(rows_ * config_.channels, "dX in bf16"),
        dqkv_(rows_ * 3 * config_.channels, "dQKV"),
        dhidden_(rows_ * 4 * config_.channels, "dhidden"),
        norm_blocks_(static_cast<int>(
            std::min<int64_t>(2 * multiprocessors(), (rows_ + WARPS - 1) / WARPS))),
        partial_(int64_t{norm_blocks_} * WARPS * 2 * config_.channels, "partial"),
        workspace_(fa::backward_workspace(attention_shape_), "workspace") {
    for (int64_t i = 0; i < config_.layers; ++i) blocks_.push_back(std::make_unique<Block>(*this));
    last_ = std::make_unique<Norm>(*this);
    std::vector<Piece> pieces;
    for (const Parameter& one : layout_) {
      for (int64_t first = 0; first < one.size(); first += PIECE) {
        pieces.push_back({one.offset + first,
                          static_cast<int>(std::min<int64_t>(PIECE, one.size() - first)),
                          one.is_matrix});
      }
    }
    pieces_ = std::make_unique<Array<Piece>>(std::ssize(pieces), "pieces");
    pieces_->upload(pieces);
  }

  void put(const TrainingState& state) override {
    const std::vector<float> weights = to_layout(state.weights);
    weights_.upload(weights);
    std::vector<bf16> rounded(weights.size());
    for (size_t i = 0; i < weights.size(); ++i) rounded[i] = fa::to_bf16(weights[i]);
    rounded_.upload(rounded);
    moment_.upload(to_layout(state.moment));
    square_.upload(to_layout(state.square));
  }
  void get(TrainingState& state) const override {
    from_layout(weights_, state.weights);
    from_layout(moment_, state.moment);
    from_layout(square_, state.square);
  }
  double gradient(const Batch& batch, std::span<float> gradient) override {
    const double loss = pass(batch);
    from_layout(gradient_, gradient);
    return loss;
  }
  double step(const Batch& batch, int64_t t) override {
    const double loss = pass(batch);
    const fa::ch20::AdamStep adam(recipe_, t);
    const auto rounded = [](double x) { return static_cast<float>(x); };
    launch(adamw, static_cast<int>(pieces_->size()), THREADS, 0,
           AdamW{.pieces = pieces_->data(),
                 .gradient = gradient_.data(),
                 .weights = weights_.data(),
                 .moment = moment_.data(),
                 .square = square_.data(),
                 .rounded = rounded_.data(),
                 .rate = rounded(adam.rate),
                 .decay = rounded(adam.kDecay),
                 .beta_1 = rounded(adam.kBeta1),
                 .beta_2 = rounded(adam.kBeta2),
                 .epsilon = rounded(adam.kEpsilon),
                 .correct_moment = rounded(adam.correct_moment),
                 .correct_square = rounded(adam.correct_square)});
    return loss;
  }
  int64_t attention_bytes() const override {
    return (config_.layers * attention_shape_.rows() + fa::backward_workspace(attention_shape_)) *
           static_cast<int64_t>(sizeof(float));
  }

 private:
  struct Norm {  // a place on the residual path, and its norm
    explicit Norm(const Model& m)
        : X(m.rows_ * m.config_.channels, "X"), Y(m.rows_ * m.config_.channels, "Y") {}
    Array<float> X;
    Array<bf16> Y;
  };
  struct Block {
    explicit Block(const Model& m)
        : first(m),
          second(m),
          qkv(m.rows_ * 3 * m.config_.channels, "QKV"),
          o(m.rows_ * m.config_.channels, "O"),
          hidden(m.rows_ * 4 * m.config_.channels, "hidden"),
          activated(m.rows_ * 4 * m.config_.channels, "activated"),
          lse(m.attention_shape_.rows(), "LSE") {}
    Norm first, second;
    Array<bf16> qkv, o, hidden, activated;
    Array<float> lse;
  };

  int rows() const { return static_cast<int>(rows_); }
  int row_blocks() const { return static_cast<int>((rows_ + WARPS - 1) / WARPS); }
  int channels() const { return static_cast<int>(config_.channels); }
  const float* weight(size_t i) const { return weights_.data() + layout_[i].offset; }
  const bf16* rounded(size_t i) const { return rounded_.data() + layout_[i].offset; }
  float* grad(size_t i) { return gradient_.data() + layout_[i].offset; }

  // Converts parameters from the file, which has no padding.
  std::vector<float> to_layout(std::span<const float> from) const {
    std::vector<float> to(count_);
    for_rows([&](int64_t in_file, int64_t here, int64_t count) {
      std::copy_n(from.begin() + in_file, count, to.begin() + here);
    });
    return to;
  }
  void from_layout(const Array<float>& from, std::span<float> to) const {
    std::vector<float> all(count_);
    from.download(all);
    for_rows([&](int64_t in_file, int64_t here, int64_t count) {
      std::copy_n(all.begin() + here, count, to.begin() + in_file);
    });
  }
  template <class Copy>
  void for_rows(Copy copy) const {
    for (size_t i = 0; i < layout_.size(); ++i) {
      const Parameter &file = file_layout_[i], &here = layout_[i];
      for (int64_t row = 0; row < file.rows; ++row) {
        copy(file.offset + row * file.cols, here.offset + row * here.cols, file.cols);
      }
    }
  }

  fa::TensorRef head_tensor(bf16* data, int64_t width, int64_t which = 0) const {
    const auto [batch, heads, length, same, dim] = attention_shape_;
    return {data + which * config_.channels,
            fa::Dtype::bf16,
            {batch, heads, length, dim},
            {length * width, dim, width, 1}};
  }
  fa::TensorRef lse_tensor(Block& block) const {
    const std::array<int64_t, 4> shape = {attention_shape_.batch, attention_shape_.heads,
                                          attention_shape_.q, 1};
    return {block.lse.data(), fa::Dtype::f32, shape, fa::contiguous_strides(shape)};
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(attention_shape_.dim)); }

  void attend(Block& block) {
    const int64_t width = 3 * config_.channels;
    fa::ForwardArgs args{.q = head_tensor(block.qkv.data(), width, 0),
                         .k = head_tensor(block.qkv.data(), width, 1),
                         .v = head_tensor(block.qkv.data(), width, 2),
                         .o = head_tensor(block.o.data(), config_.channels),
                         .lse = lse_tensor(block),
                         .scale = scale(),
                         .window_right = 0};
    fa::check_arguments(kernels_.forward, args);
    forward_build_.forward(args);
  }
  void attend_backward(Block& block) {
    const int64_t width = 3 * config_.channels;
    fa::BackwardArgs args{.q = head_tensor(block.qkv.data(), width, 0),
                          .k = head_tensor(block.qkv.data(), width, 1),
                          .v = head_tensor(block.qkv.data(), width, 2),
                          .o = head_tensor(block.o.data(), config_.channels),
                          .d_o = head_tensor(dY_.data(), config_.channels),
                          .lse = lse_tensor(block),
                          .dq = head_tensor(dqkv_.data(), width, 0),
                          .dk = head_tensor(dqkv_.data(), width, 1),
                          .dv = head_tensor(dqkv_.data(), width, 2),
                          .workspace = workspace_.data(),
                          .scale = scale(),
                          .causal = true};
    fa::check_arguments(kernels_.backward, args);
    backward_build_.backward(args);
  }

  // Calls `call` with the maximum number of chunks of 128 channels per row as a compile-time
  // constant.
  template <class Call>
  void with_chunks(Call call) const {
    if (config_.channels <= 128) return call(std::integral_constant<int, 1>{});
    if (config_.channels <= 512) return call(std::integral_constant<int, 4>{});
    if (config_.channels <= 768) return call(std::integral_constant<int, 6>{});
    if (config_.channels <= 1024) return call(std::integral_constant<int, 8>{});
    call(std::integral_constant<int, 12>{});
  }
  // to.X = from.X + branch, to.Y = norm(to.X). Without `from`, to.X is already computed.
  void normed(const Norm* from, Norm& to, size_t gain) {
    const AddNorm arguments{.X = from != nullptr ? from->X.data() : to.X.data(),
                            .branch = from != nullptr ? branch_.data() : nullptr,
                            .sum = to.X.data(),
                            .gain = weight(gain),
                            .bias = weight(gain + 1),
                            .Y = to.Y.data(),
                            .rows = rows(),
                            .channels = channels()};
    with_chunks(
        [&](auto chunks) { launch(add_norm<chunks>, row_blocks(), THREADS, 0, arguments); });
  }
  // dX += the gradient of dY_ through the norm. The first time dX is 0.
  void norm_gradient(const Norm& norm, size_t gain, bool first = false) {
    const NormBackward arguments{.dY = dY_.data(),
                                 .X = norm.X.data(),
                                 .gain = weight(gain),
                                 .before = first ? nullptr : dX_.data(),
                                 .dX = dX_.data(),
                                 .dX_rounded = dX_rounded_.data(),
                                 .partial = partial_.data(),
                                 .rows = rows(),
                                 .channels = channels()};
    with_chunks(
        [&](auto chunks) { launch(norm_backward<chunks>, norm_blocks_, THREADS, 0, arguments); });
    launch(sum_partials, ceil_div(2 * channels(), WARP_SIZE), 1024, 1024 * sizeof(float),
           partial_.data(), grad(gain), norm_blocks_ * WARPS, 2 * channels());
  }

  // Computes the loss and all gradients.
  double pass(const Batch& batch) {
    const int64_t c = config_.channels, v = config_.vocabulary;
    tokens_.upload(batch.tokens);
    targets_.upload(batch.targets);
    Norm& start = blocks_.front()->first;
    launch(embed, row_blocks(), THREADS, 0,
           Embed{.tokens = tokens_.data(),
                 .token = weight(fa::ch20::TOKENS),
                 .position = weight(fa::ch20::POSITIONS),
                 .X = start.X.data(),
                 .one_hot = one_hot_.data(),
                 .rows = rows(),
                 .context = static_cast<int>(config_.context),
                 .channels = channels(),
                 .vocabulary = static_cast<int>(v)});
    // [anchor: device_block]
    size_t first = fa::ch20::FIRST_BLOCK;
    const Norm* before = nullptr;  // the following branch has not been added yet
    for (const auto& one : blocks_) {
      Block& block = *one;
      using namespace fa::ch20;
      normed(before, block.first, first + GAIN_1);
      products_.linear(block.first.Y.data(), rounded(first + QKV_W), rounded(first + QKV_B),
                       block.qkv.data(), rows_, c, 3 * c);
      attend(block);
      products_.linear(block.o.data(), rounded(first + OUT_W), rounded(first + OUT_B),
                       branch_.data(), rows_, c, c);
      normed(&block.first, block.second, first + GAIN_2);
      products_.linear_gelu(block.second.Y.data(), rounded(first + UP_W), rounded(first + UP_B),
                            block.hidden.data(), block.activated.data(), rows_, c, 4 * c);
      products_.linear(block.activated.data(), rounded(first + DOWN_W), rounded(first + DOWN_B),
                       branch_.data(), rows_, 4 * c, c);
      before = &block.second;
      first += PER_BLOCK;
    }
    // [/anchor: device_block]
    using namespace fa::ch20;
    normed(before, *last_, first + LAST_GAIN);
    products_.linear(last_->Y.data(), rounded(first + HEAD_W), weight(first + HEAD_B),
                     logits_.data(), rows_, c, v);
    launch(FA_BACKEND::ch20::cross_entropy, row_blocks(), THREADS, 0,
           CrossEntropy{.logits = logits_.data(),
                        .targets = targets_.data(),
                        .losses = losses_.data(),
                        .dlogits = dlogits_.data(),
                        .rows = rows(),
                        .vocabulary = static_cast<int>(recipe_.model.vocabulary),
                        .stride = static_cast<int>(v)});

    // Leaves dX = dY W.T in `dX`, and writes dW and db.
    const auto linear_gradient = [&](const Array<bf16>& X, size_t W, const Array<bf16>& dY,
                                     Array<bf16>& dX, const Array<bf16>* hidden = nullptr) {
      const Parameter& matrix = layout_[W];
      products_.weight_gradient(X.data(), dY.data(), grad(W), grad(W + 1), rows_, matrix.rows,
                                matrix.cols);
      products_.input_gradient(dY.data(), rounded(W), dX.data(),
                               hidden != nullptr ? hidden->data() : nullptr, rows_, matrix.rows,
                               matrix.cols);
    };
    linear_gradient(last_->Y, first + HEAD_W, dlogits_, dY_);
    norm_gradient(*last_, first + LAST_GAIN, true);
    for (size_t layer = blocks_.size(); layer-- > 0;) {
      Block& block = *blocks_[layer];
      first -= PER_BLOCK;
      linear_gradient(block.activated, first + DOWN_W, dX_rounded_, dhidden_, &block.hidden);
      linear_gradient(block.second.Y, first + UP_W, dhidden_, dY_);
      norm_gradient(block.second, first + GAIN_2);
      linear_gradient(block.o, first + OUT_W, dX_rounded_, dY_);
      attend_backward(block);
      linear_gradient(block.first.Y, first + QKV_W, dqkv_, dY_);
      norm_gradient(block.first, first + GAIN_1);
    }
    // A row of the one-hot matrix selects the row of the embedding that dX belongs to.
    products_.weight_gradient(one_hot_.data(), dX_rounded_.data(), grad(TOKENS), nullptr, rows_, v,
                              c);
    const int64_t positions = config_.context * c;
    launch(sum_positions, static_cast<int>((positions / 4 + THREADS - 1) / THREADS), THREADS, 0,
           dX_.data(), grad(POSITIONS), static_cast<int>(recipe_.batch), positions);

    std::vector<float> losses(rows_);
    losses_.download(losses);
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(rows_);
  }

  const Recipe recipe_;
  const Config config_;  // with the padded vocabulary
  const std::vector<Parameter> layout_, file_layout_;
  const int64_t rows_;
  const fa::ch20::AttentionKernels kernels_;
  const fa::KernelBuild &forward_build_, &backward_build_;
  const fa::Shape attention_shape_;
  const int64_t count_;
  Products products_;
  Array<float> weights_, gradient_, moment_, square_;
  Array<bf16> rounded_;
  Array<int> tokens_, targets_;
  Array<float> losses_;
  Array<bf16> one_hot_;
  Array<float> logits_;
  Array<bf16> dlogits_, branch_, dY_;
  Array<float> dX_;
  Array<bf16> dX_rounded_, dqkv_, dhidden_;
  const int norm_blocks_;
  Array<float> partial_, workspace_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<Norm> last_;
  std::unique_ptr<Array<Piece>> pieces_;
};

// Throws InputError for sizes that the kernels do not support.
inline void check_recipe(const Recipe& recipe, const fa::ch20::AttentionKernels& kernels) {
  const Config& config = recipe.model;
  const int64_t rows = recipe.batch * config.context;
  check_shape(kernels, {recipe.batch, config.heads, config.context, config.context,
                        config.channels / config.heads});
  if (config.channels > 1536) {
    throw fa::InputError("--channels " + std::to_string(config.channels) +
                         ": the norm's kernels take up to 1536");
  }
  if (rows > 1 << 24) {
    throw fa::InputError("--batch x --context " + std::to_string(rows) +
                         ": up to 16777216 tokens per step on a GPU");
  }
}

}  // namespace FA_BACKEND::ch20
