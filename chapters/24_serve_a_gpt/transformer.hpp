#pragma once
// Chapter 20's model for new tokens of several sequences at once, that is, its layers, with
// attention to the cache.

#include <memory>

#include "cache_attention.hpp"
#include "chapters/20_train_a_gpt/training.hpp"

namespace fa::ch24 {

class Transformer {
 public:
  // `trained` must outlive this.
  Transformer(const ch20::TrainingState& trained, std::unique_ptr<CacheAttention> attention);

  // Appends the new tokens to the cache. `tokens` has one per row, in the order of the pieces.
  // Returns the logits [rows, vocabulary] of the token after each, valid until the next call.
  ch20::Matrix<float> forward(std::span<const Piece> pieces, std::span<const int32_t> tokens);

  const CacheAttention& attention() const { return *attention_; }

 private:
  const ch20::Config config_;
  std::vector<float> weights_;
  const std::vector<ch20::Parameter> layout_;
  const std::unique_ptr<CacheAttention> attention_;
  std::vector<float> logits_;
};

}  // namespace fa::ch24
