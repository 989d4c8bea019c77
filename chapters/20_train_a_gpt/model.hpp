#pragma once
// A GPT over characters: embeddings, blocks of attention and MLP with a layer norm before each
// (GPT-2's order), a last layer norm, a linear head. Forward and backward pass are written by hand.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "self_attention.hpp"

namespace fa::ch20 {

struct Config {
  int64_t vocabulary = 0, context = 64, layers = 2, heads = 4, channels = 64;
  bool operator==(const Config&) const = default;
};

// A slice of the vector of all parameters: [rows, cols], or [1, cols].
struct Parameter {
  std::string name;  // "block 0 attention in W"
  int64_t offset, rows, cols;
  bool is_matrix;  // a factor of a product, or an embedding, because only these have weight decay
  int64_t size() const { return rows * cols; }
};

// Their indices in the list, at its start, within a block, and after the blocks.
enum FirstParameter { TOKENS, POSITIONS, FIRST_BLOCK };
enum BlockParameter {
  GAIN_1,
  BIAS_1,
  QKV_W,
  QKV_B,
  OUT_W,
  OUT_B,
  GAIN_2,
  BIAS_2,
  UP_W,
  UP_B,
  DOWN_W,
  DOWN_B,
  PER_BLOCK
};
enum LastParameter { LAST_GAIN, LAST_BIAS, HEAD_W, HEAD_B };

// Returns all parameters in the order of the forward pass, without gaps.
std::vector<Parameter> parameters(const Config& config);
int64_t parameter_count(const Config& config);

// Returns GPT-2's initial values, which are normal matrices with deviation 0.02, divided by sqrt(2
// layers) if they end on the residual path, gains 1, biases 0. The same seed gives the same values
// on every machine.
std::vector<float> initial_parameters(const Config& config, uint64_t seed);

template <class R>
class Gpt {
 public:
  Gpt(const Config& config, int64_t batch, const AttentionChoice& attention);

  // Returns the mean of −log P(target) over the batch. `tokens` and `targets` are [batch, context],
  // weights is [parameter_count]. Keeps what backward needs.
  double forward(std::span<const R> weights, std::span<const int32_t> tokens,
                 std::span<const int32_t> targets);
  // Called after forward, with the same weights and tokens. Writes all of `gradient`
  // [parameter_count].
  void backward(std::span<const R> weights, std::span<const int32_t> tokens, std::span<R> gradient);
  // Result of the last forward, [batch * context, vocabulary]: (P − one_hot(target)) / rows
  std::span<const R> logits_gradient() const { return logits_; }

 private:
  struct Norm {
    Norm(int64_t rows, int64_t channels)
        : normalized(rows * channels), output(rows * channels), inverse_deviation(rows) {}
    std::vector<R> normalized, output, inverse_deviation;
  };
  struct Block {  // data of a block that the backward pass needs
    Block(const Config& config, int64_t batch, const AttentionChoice& choice);
    Norm norm_1, norm_2;
    std::vector<R> qkv, o, hidden, activated;
    std::unique_ptr<Attention<R>> attention;
  };

  Matrix<R> view(std::vector<R>& values, int64_t cols) const {
    return {values.data(), rows_, cols};
  }

  const Config config_;
  const int64_t rows_;  // batch * context
  const std::vector<Parameter> layout_;
  std::vector<Block> blocks_;
  Norm last_norm_;
  std::vector<R> x_, branch_;  // the residual path, and a branch's addition to it
  std::vector<R> logits_;      // logits, then their gradient
  std::vector<R> dx_, dbranch_, dqkv_, dhidden_;
};

}  // namespace fa::ch20
