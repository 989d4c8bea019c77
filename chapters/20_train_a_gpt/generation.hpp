#pragma once
// Text from a trained model, a character at a time: chapter 11's decoding over its paged cache.

#include <cstdint>
#include <string>
#include <vector>

#include "chapters/11_decoding/cpu_decode.hpp"
#include "training.hpp"

namespace fa::ch20 {

// One sequence. The keys and values of each layer lie in pages; all layers share the table.
class Decoder {
 public:
  explicit Decoder(const TrainingState& trained);

  // The next character, behind those before: the logits [vocabulary] of what follows it. When the
  // context is full, its later half is read again from the start of an empty cache: a position has
  // an embedding of its own, so nothing can just move.
  std::span<const float> next(int32_t token);

  int64_t length() const { return table_.length(0); }  // tokens in the cache
  int64_t pages_used() const { return pool_.used(); }

 private:
  void decode(int32_t token);
  void attend(int64_t layer, const float* qkv, float* o);

  const Config config_;
  const int64_t dim_;  // of a head
  std::vector<float> weights_;
  const std::vector<Parameter> layout_;
  ch11::PagePool pool_;
  ch11::PageTable table_;
  std::vector<std::vector<float>> K_pages_, V_pages_;  // of each layer
  ch11::Partials<float> partials_;
  std::vector<int32_t> tokens_;  // in the cache
  std::vector<float> logits_;
};

// A token, with probability softmax(logits / temperature).
int32_t sample(std::span<const float> logits, double temperature, Random& random);

// What a model starts from if no prompt is given: a new line, or the first character of its text if
// that text has no new line.
std::string default_prompt(const TrainingState& trained);

// `prompt` and `count` more characters, in UTF-8. Throws InputError for an empty prompt, and for
// one with characters that the text did not have.
std::string generate(const TrainingState& trained, const std::string& prompt, int64_t count,
                     double temperature, int64_t seed);

}  // namespace fa::ch20
