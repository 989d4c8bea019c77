#pragma once
// Generates text from a trained model, one character at a time, with chapter 11's decoding and
// paged cache.

#include <cstdint>
#include <string>
#include <vector>

#include "chapters/11_decoding/cpu_decode.hpp"
#include "training.hpp"

namespace fa::ch20 {

// One sequence. The keys and values of each layer are in pages, and all layers share the page
// table.
class Decoder {
 public:
  explicit Decoder(const TrainingState& trained);

  // Appends a character and returns the logits [vocabulary] of the one that follows. When the
  // context is full, the later half is decoded again from an empty cache, because positions have
  // embeddings, so cached entries cannot move.
  std::span<const float> next(int32_t token);

  int64_t length() const { return table_.length(0); }  // tokens in the cache
  int64_t pages_used() const { return pool_.used(); }

 private:
  void decode(int32_t token);
  void attend(int64_t layer, const float* qkv, float* o);

  const Config config_;
  const int64_t dim_;  // per head
  std::vector<float> weights_;
  const std::vector<Parameter> layout_;
  ch11::PagePool pool_;
  ch11::PageTable table_;
  std::vector<std::vector<float>> K_pages_, V_pages_;  // one per layer
  ch11::Partials<float> partials_;
  std::vector<int32_t> tokens_;  // tokens in the cache
  std::vector<float> logits_;
};

// Returns a token with probability softmax(logits / temperature).
int32_t sample(std::span<const float> logits, double temperature, Random& random);

// Returns the default prompt of a model, which is a new line, or the first character of its text if
// that text has no new line.
std::string default_prompt(const TrainingState& trained);

// Returns `prompt` and `count` more characters in UTF-8. Throws InputError for an empty prompt and
// for characters that the training text did not have.
std::string generate(const TrainingState& trained, const std::string& prompt, int64_t count,
                     double temperature, int64_t seed);

}  // namespace fa::ch20
