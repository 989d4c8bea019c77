#pragma once
// Attention of new tokens to a cache in shared pages, either with the kernels of chapters 09 and 11
// in bf16, or on the CPU in fp32.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "chapters/20_train_a_gpt/matrix.hpp"
#include "pages.hpp"

namespace fa::ch24 {

// New tokens of one sequence. sequence->length does not count them yet, and its pages have room.
struct Piece {
  const Sequence* sequence;
  int64_t first_row, count;  // its rows of the activations
};

struct CacheShape {
  int64_t layers, heads, dim, pages, page_size, context;
  int64_t channels() const { return heads * dim; }
};

class CacheAttention {
 public:
  virtual ~CacheAttention() = default;
  // Stores K and V of the new tokens in the cache of this layer. Then token i of a piece attends to
  // its sequence up to itself. QKV is [rows, 3 channels], O is [rows, channels].
  virtual void attend(int64_t layer, std::span<const Piece> pieces, ch20::Matrix<const float> QKV,
                      ch20::Matrix<float> O) = 0;
  virtual std::string device() const = 0;
  virtual int64_t hazards() const { return 0; }  // that the emulator has found
};

// `device` is "cpu", "emulator" or "gpu". The cache is full of NaN at first. Throws InputError for
// a head size that the kernels do not support.
std::unique_ptr<CacheAttention> make_cache_attention(const std::string& device,
                                                     const CacheShape& shape);

}  // namespace fa::ch24
